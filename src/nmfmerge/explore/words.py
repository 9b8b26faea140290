"""Sentences of the page: components, edits and changes of the fitting error."""

from collections.abc import Sequence
from typing import Any

from nmfmerge.results.factorization import Factorization, is_number


def name_of(names: Sequence[str], i: int) -> str:
    """The name of a component, or its number: "Component 3", "Component 1+2"."""
    name = names[i] if i < len(names) else str(i + 1)
    return f"Component {name}" if is_number(name) else name


def short(name: str) -> str:
    """A name for narrow places: of a component without a name, the number."""
    return name.removeprefix("Component ")


def as_percent(value: float) -> str:
    """A fitting error or share, in percent."""
    return f"{value:.4g} %"


def points(value: float) -> str:
    """A change of the fitting error, in percentage points, with its sign."""
    return f"{value:+.3g}".replace("-", "−") if abs(value) >= 1e-9 else "±0"


def change(before: Factorization, after: Factorization) -> str:
    """Fitting error before and after, or that it is the same in all digits that are shown."""
    first, second = before.fitting_error, after.fitting_error
    if as_percent(first) == as_percent(second):
        return f"fitting error {as_percent(second)}, unchanged"
    return f"fitting error {as_percent(first)} → {as_percent(second)} ({points(second - first)})"


_EDITS = {  # while they are done, and after
    "add": ("Adding {0}", "Added {0}"),
    "merge": ("Merging {0} and {1}", "Merged {0} and {1}"),
    "merge_to": ("Merging down to {0} components", "Merged down to {0} components"),
    "split": ("Splitting {0}", "Split {0}"),
    "remove": ("Removing {0}", "Removed {0}"),
    "hold": ("Holding {0}", "Held {0}"),
    "release": ("Releasing {0}", "Released {0}"),
    "rename": ("Renaming {0}", "Renamed {0} to {1}"),
    "polish": ("Polishing", "Polished"),
    "undo": ("Undoing", "Undone"),
    "redo": ("Doing again", "Done again"),
}
NEXT = {"add": "Polish (P) to fit it together with the others."}  # what to do after an edit
_COMPONENTS = {"merge": 2, "split": 1, "remove": 1, "hold": 1, "release": 1, "rename": 1}


def edit_in_words(
    name: str, arguments: Sequence[Any], names: Sequence[str] = (), *, doing: bool = False
) -> str:
    """An edit in words, with the names of its components, or else their numbers."""
    words = [
        _shown(names, value) if place < _COMPONENTS.get(name, 0) else str(value)
        for place, value in enumerate(arguments)
    ]
    if name == "add":
        words = ["a missing feature" if words in ([], ["1"]) else f"{words[0]} missing features"]
    return _EDITS[name][0 if doing else 1].format(*words)


def _shown(names: Sequence[str], i: int) -> str:
    return names[i] if i < len(names) else f"number {i + 1}"
