"""Messages for people at a terminal, with options as they type them."""

import argparse
import re
import sys
from pathlib import Path
from typing import TextIO

from nmfmerge.cli.settings import FLAGS
from nmfmerge.io.options import OPTIONS

_OPTION = {name: "--" + name.replace("_", "-") for name in (*OPTIONS, "max_penalty")} | FLAGS
_OPTION |= {"n_max": "--max", "n_min": "--min", "port": "--port", "tables": "--tables"}
_OPTION |= {"memory": "--memory"}
_NAMES = "|".join(sorted(_OPTION, key=len, reverse=True))
_GIVEN = re.compile(rf"(?<![\w-])({_NAMES})=(True|False|(?=[^\s;:,.)]))?")
_BARE = re.compile(rf"(?<![\w-])({'|'.join(n for n in _OPTION if '_' in n)}|tol)(?![\w=])")
_LIST = re.compile(rf"(?<=which takes )(?:{_NAMES})(?:, (?:{_NAMES}))*(?!\w)")


def in_options(message: str, given: argparse.Namespace | None = None) -> str:
    """A message of the Python functions, with options instead of arguments.

    ``variable='x'`` becomes ``--variable 'x'``; names of files that were given stay as they are.
    """
    values = vars(given).values() if given else ()
    paths = [name for path in values if isinstance(path, Path) for name in (str(path), path.name)]
    if not paths:
        return _replace(message)
    parts = re.split(f"({'|'.join(map(re.escape, paths))})", message)
    return "".join(part if part in paths else _replace(part) for part in parts)


def _replace(text: str) -> str:
    text = _LIST.sub(lambda found: re.sub(r"\w+", lambda n: _OPTION[n[0]], found[0]), text)
    text = _GIVEN.sub(_typed, text)
    return _BARE.sub(lambda found: _OPTION[found[1]], text)


def _typed(found: re.Match[str]) -> str:
    option, value = _OPTION[found[1]], found[2]
    if value == "False":
        return option.replace("--", "--no-", 1)
    return option if value in ("True", None) else option + " "


def show(text: str, stream: TextIO | None = None) -> None:
    """Print; characters that the terminal cannot show are escaped."""
    stream = stream or sys.stdout
    try:
        print(text, file=stream)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)
