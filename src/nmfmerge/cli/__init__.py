"""The command ``nmfmerge``: one file per subcommand; errors end in one sentence and an exit code.

Exit codes: 0 done, 1 the input or the output is at fault, 2 the command was mistyped, 3 the fit did
not converge within its limits (its result is written all the same), 130 interrupted.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from threadpoolctl import threadpool_limits

import nmfmerge
from nmfmerge.cli.messages import in_options, show
from nmfmerge.folder import RestoredWarning
from nmfmerge.io.errors import ReadingWarning

COMMANDS = ("demo", "fit", "path", "report", "merge", "export", "compare", "explore", "info")
_COMPUTING = ("demo", "fit", "path", "merge", "explore")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = _parser().parse_args(arguments)
    command = import_module(f"nmfmerge.cli.{given.command}")
    try:
        with warnings.catch_warnings(), threadpool_limits(getattr(given, "threads", None)):
            _tell_of_reading(given)
            return int(command.run(given))
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return _fail(given, "interrupted", 130)
    except argparse.ArgumentTypeError as error:
        return _fail(given, str(error), 2)
    except (ValueError, TypeError, OSError) as error:
        return _fail(given, " ".join(str(error).split()), 1)
    except MemoryError:
        return _fail(given, "there is not enough memory for this matrix: try float32 or less data")


def _tell_of_reading(given: argparse.Namespace) -> None:
    """Show what readers warn of as one sentence with options, not with a line of Python."""
    show_other = warnings.showwarning

    def show_warning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, ReadingWarning | RestoredWarning):
            show(f"nmfmerge: {in_options(str(message), given)}", sys.stderr)
        else:
            show_other(message, category, *rest, **more)

    warnings.showwarning = show_warning
    for told in (ReadingWarning, RestoredWarning):
        warnings.simplefilter("always", told)


def _threads(text: str) -> int:
    """A number of threads."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of threads: 1 or more")
    return int(text)


def _fail(given: argparse.Namespace, message: str, code: int = 1) -> int:
    message = in_options(message, given)
    if getattr(given, "json", False):
        print(json.dumps({"error": message}))
    show(f"nmfmerge: {message}", sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nmfmerge", description="Nonnegative matrix factorization by NMF-Merge."
    )
    parser.add_argument("--version", action="version", version=f"nmfmerge {nmfmerge.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = import_module(f"nmfmerge.cli.{name}")
        summary = (module.__doc__ or "").strip().splitlines()[0]
        command = commands.add_parser(name, help=summary, description=summary)
        module.add_arguments(command)
        if name in _COMPUTING:
            command.add_argument(
                "--threads", type=_threads, metavar="N",
                help="threads to use (default: OMP_NUM_THREADS, or all cores)",
            )  # fmt: skip
        command.add_argument("--json", action="store_true", help="print the outcome as JSON")
    return parser
