"""Messages for people at a terminal, with options as they type them."""

import sys
from typing import Any, TextIO

from nmfmerge.arguments.errors import option_style, written
from nmfmerge.io.options import OPTIONS
from nmfmerge.settings import SETTINGS

ANOTHER_FOLDER = "name another folder with -o"
_OTHERS = {  # arguments of single commands
    "adata": "the file", "table": "the file", "replace": "--force",
    "mask_var": "--mask-var", "max_penalty": "--max-penalty",
    "memory": "--memory", "name": "--name", "port": "--port", "reference": "--reference",
    "refit": "--refit", "tables": "--tables", "weights": "--weights",
}  # fmt: skip

LOSS_ADVICE = (
    "The values are counts, which the Kullback–Leibler loss would suit better than the squared "
    "error: ask for it with --loss kl."
)


def in_options(said: Any) -> str:
    """The text of an error, a warning or a message, with options instead of arguments."""
    flags = {name: "--" + name.replace("_", "-") for name in OPTIONS} | _OTHERS
    flags |= {name: setting.flags[-1] for name, setting in SETTINGS.items() if setting.flags}
    return written(said, option_style(flags))


def show(text: str, stream: TextIO | None = None) -> None:
    """Print; characters that the terminal cannot show are escaped."""
    stream = stream or sys.stdout
    try:
        print(text, file=stream)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)
