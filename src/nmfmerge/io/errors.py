"""Errors of reading files, and the import of optional libraries."""

import importlib
from typing import Any


class FormatError(ValueError):
    """A file does not hold what its format promises; the message says what to do."""


class TooLarge(FormatError):
    """A file needs more memory than it may take."""


class MissingLibrary(FormatError):
    """A format needs a library that is not installed; the message has the command."""


class ReadingWarning(UserWarning):
    """A file holds more than the matrix that was made of it; the message says how to choose."""


def library(module: str, what: str, package: str, extra: str, doing: str = "reading") -> Any:
    """Import the library that reading (or writing) something needs, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingLibrary(
            f'{doing} {what} needs {package}: pip install "nmfmerge[{extra}]"'
        ) from error


def one_line(error: BaseException) -> str:
    """The message of an error on one line, not too long, without a full stop."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= 160 else text[:157] + "..."
