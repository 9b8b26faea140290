"""Edits as a Python program."""

import os
from collections.abc import Mapping, Sequence

from nmfmerge import settings
from nmfmerge.editor.edits import Edit


def script(
    edits: Sequence[Edit],
    X: str,
    start: str,
    names: Sequence[str],
    held: Sequence[int],
    shape: tuple[int, int],
    loss: str,
    named: Mapping[str, str],
) -> str:
    """A program that makes an editor with the start in a file, and does the edits.

    ``named`` are further arguments of the editor, as code.
    """
    numbered = list(names) == [str(t + 1) for t in range(len(names))]
    first = ["X", 'start["W"]', 'start["H"]']
    first += [f"{name}={code}" for name, code in named.items()]
    first += [] if numbered else [f"names={list(names)!r}"]
    first += [f"held={list(held)!r}"] if held else []
    first += [] if loss == settings.defaults("nmf")["beta_loss"] else [f"beta_loss={loss!r}"]
    lines = [
        '"""Edits of a nonnegative matrix factorization, to be done again."""',
        "",
        "import numpy as np",
        "",
        "import nmfmerge",
        "",
        f"X = {X}  # {shape[0]} × {shape[1]}",
        f"with np.load({os.fspath(start)!r}) as start:",
        f"    editor = nmfmerge.Editor({', '.join(first)})",
        "",
        *(f"editor.{edit}" for edit in edits if edit.settings.get("max_iter") != 0),
        "",
        "result = editor.result()",
        "print(result)",
    ]
    return "\n".join(lines) + "\n"
