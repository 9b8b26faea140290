from tests.cli.conftest import command

__all__ = ["command"]  # the fixture that runs the command line in this process
