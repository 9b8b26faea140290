"""Text that a spreadsheet would compute when it opens a csv file, marked so that it stays text.

A formula does harm only if it calls a function, another program or another file. Text of that kind
gets an apostrophe in front, which is taken off when our own tables are read; names such as "-1",
"+/-" or "=A1" stay as they are.
"""

import re

_FORMULA = r"\s*[=+\-@＝＋－＠].*(?:[\w.]\s*\(|[|!])"  # full-width signs begin formulas too
_HARMFUL = re.compile(f"'*{_FORMULA}", re.DOTALL)
_MARKED = re.compile(f"'+{_FORMULA}", re.DOTALL)


def mark(text: str) -> str:
    """Text for a cell of a csv file, with an apostrophe in front if it would be computed."""
    return f"'{text}" if _HARMFUL.match(text) else text


def unmark(text: str) -> str:
    """The text that `mark` was given."""
    return text[1:] if text.startswith("'") and _MARKED.match(text) else text
