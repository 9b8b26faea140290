"""An edit: its name and arguments, as data, as JSON and as Python."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nmfmerge import settings
from nmfmerge.editor.code import call

# The arguments of each edit, in order; those of `polish` are its settings.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "add": ("k",),
    "merge": ("i", "j"),
    "merge_to": ("n_components",),
    "split": ("i",),
    "remove": ("i",),
    "hold": ("i",),
    "release": ("i",),
    "rename": ("i", "name"),
    "polish": (),
}
_SETTINGS = {name: type(value) for name, value in settings.defaults("Editor").items()}


@dataclass(frozen=True)
class Edit:
    """One edit of a factorization.

    Attributes
    ----------
    name : str
        "add", "merge", "merge_to", "split", "remove", "hold", "release", "rename" or "polish".
    arguments : tuple
        Its arguments; components are counted from 0, as they were when it was done.
    settings : dict
        Of "polish": solver, tol and max_iter, which is the number of iterations that were done if
        it was stopped early.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return call(self.name, *self.arguments, **self.settings)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        record: dict[str, Any] = {"name": self.name, "arguments": list(self.arguments)}
        return record | ({"settings": dict(self.settings)} if self.settings else {})

    @classmethod
    def from_json(cls, record: Any) -> "Edit":
        """Undo `as_json`; raise ValueError for anything that no edit could have written."""
        try:
            name, arguments = record["name"], tuple(record["arguments"])
            settings = dict(record.get("settings", {}))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{record!r} is not an edit") from error
        if name not in ARGUMENTS or len(arguments) != len(ARGUMENTS[name]):
            raise ValueError(f"{name!r} with {len(arguments)} arguments is not an edit")
        for kind, value in zip(ARGUMENTS[name], arguments, strict=True):
            if type(value) is not (str if kind == "name" else int):
                raise ValueError(f"{name} has the argument {value!r}")
        if (set(settings) != set(_SETTINGS)) if name == "polish" else settings:
            raise ValueError(f"{name} has the settings {sorted(settings)}")
        for setting, value in settings.items():
            if type(value) is not _SETTINGS[setting]:
                raise ValueError(f"{name} has {setting}={value!r}")
        return cls(name, arguments, settings)
