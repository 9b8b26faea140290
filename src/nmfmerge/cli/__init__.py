"""The command ``nmfmerge``: one file per subcommand; errors end in one sentence and an exit code.

Exit codes: 0 done, 1 the input or the output is at fault, 2 the command was mistyped, 3 the fit did
not converge within its limits (its result is still written), 130 interrupted.
"""

import argparse
import gc
import json
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from nmfmerge._version import __version__

COMMANDS = (
    "demo", "fit", "path", "consensus", "programs", "signatures", "report", "merge", "export",
    "compare", "explore", "info",
)  # fmt: skip

# New ones between two garbage collections: more than usual, as imports and figures make many that
# stay.
_OBJECTS = 50_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Only the code of this command is imported, and nothing for ``--version``.
    """
    gc.set_threshold(_OBJECTS)
    words = sys.argv[1:] if arguments is None else list(arguments)
    given = _parser(words[0] if words else None).parse_args(words)
    from threadpoolctl import threadpool_limits

    command = import_module(f"nmfmerge.cli.{given.command}")
    try:
        with warnings.catch_warnings(), threadpool_limits(_threads(given)):
            _print_reading_warnings(given)
            return int(command.run(given))
    except BrokenPipeError:  # the reader of our output has closed the pipe
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return _fail(given, "interrupted", 130)
    except argparse.ArgumentTypeError as error:
        return _fail(given, str(error), 2)
    except (ValueError, TypeError, OSError) as error:
        return _fail(given, error)
    except MemoryError:
        return _fail(given, "there is not enough memory for this matrix: try float32 or less data")


def _print_reading_warnings(given: argparse.Namespace) -> None:
    """Print warnings of readers as one sentence with options, without a line of code."""
    from nmfmerge.cli.messages import in_options, show
    from nmfmerge.io.errors import ReadingWarning
    from nmfmerge.storage.folder import RestoredWarning

    show_other = warnings.showwarning

    def show_warning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, ReadingWarning | RestoredWarning):
            show(f"nmfmerge: {in_options(message)}", sys.stderr)
        else:
            show_other(message, category, *rest, **more)

    warnings.showwarning = show_warning
    for category in (ReadingWarning, RestoredWarning):
        warnings.simplefilter("always", category)


def _threads(given: argparse.Namespace) -> int | None:
    """Most threads of the whole process, not of its fits alone; None if no limit was given."""
    from nmfmerge.machine import cores
    from nmfmerge.settings import SETTINGS

    n_jobs = getattr(given, "n_jobs", None)
    if n_jobs is None:
        return None
    n = int(SETTINGS["n_jobs"].check(n_jobs))
    return n if n > 0 else max(1, cores() + 1 + n)


def _fail(given: argparse.Namespace, error: BaseException | str, code: int = 1) -> int:
    from nmfmerge.cli.messages import in_options, show

    message = " ".join(in_options(error).split())
    if getattr(given, "json", False):
        print(json.dumps({"error": message}))
    show(f"nmfmerge: {message}", sys.stderr)
    return code


def _parser(first: str | None = None) -> argparse.ArgumentParser:
    """The parser of the command that the ``first`` word names, or of all commands."""
    parser = argparse.ArgumentParser(
        prog="nmfmerge", description="Nonnegative matrix factorization by NMF-Merge."
    )
    parser.add_argument("--version", action="version", version=f"nmfmerge {__version__}")
    if first == "--version":
        return parser
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in (first,) if first in COMMANDS else COMMANDS:
        module = import_module(f"nmfmerge.cli.{name}")
        summary = (module.__doc__ or "").strip().splitlines()[0]
        command = commands.add_parser(name, help=summary, description=summary)
        module.add_arguments(command)
        command.add_argument("--json", action="store_true", help="print the outcome as JSON")
    return parser
