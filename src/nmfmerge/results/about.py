"""The record of a fit beside its factors: how it was made, and comparisons with other fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True, eq=False)
class About:
    """The record of how a fit was made, stored in ``fit.json``; every entry is optional.

    Attributes
    ----------
    title, command, date : str or None
        Title of the report, the command that repeats the fit, and when it was made.
    file : str or None
        The file of the data; with ``generated``, the call that generates them.
    generated : bool
        Whether the data are generated, as in the demonstration.
    data_sha256, data_sample_sha256 : str or None
        Hash of the whole file, or of samples of a file too large to read for it.
    shape : pair of int or None
        Shape of the data, if the report shows only a part of the result.
    settings, reading, versions : mapping
        Settings of the fit, options of the reader, and versions of packages.
    notes : sequence of str
        Sentences for the report.
    streamed : mapping or None
        Its ``memory`` and ``scheduler``, if the data were streamed.
    weights : mapping or None
        The "file" and the "sha256" of the weights of the entries, if they have any.
    standard : mapping or None
        Standard NMF from the same starts: "fitting_error", "n_init", "status" and "seconds".
    around : mapping or None
        What `nmfmerge.ranks.alternatives.around` found at other ranks.
    compare : mapping or None
        "standard_errors" and "merge_errors" from the same starts, in percent.
    """

    title: str | None = None
    file: str | None = None
    generated: bool = False
    command: str | None = None
    date: str | None = None
    data_sha256: str | None = None
    data_sample_sha256: str | None = None
    shape: Sequence[int] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    reading: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    streamed: Mapping[str, Any] | None = None
    weights: Mapping[str, str] | None = None
    standard: Mapping[str, Any] | None = None
    around: Mapping[str, Any] | None = None
    compare: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, known: "About | Mapping[str, Any] | None") -> "About":
        """From a mapping, such as the one in `fit.json`; unknown entries are ignored."""
        if isinstance(known, cls):
            return known
        entries: Any = known or {}
        names = [entry.name for entry in fields(cls)]
        return cls(**{name: entries[name] for name in names if entries.get(name) is not None})

    def as_record(self) -> dict[str, Any]:
        """The entries that are set, for `fit.json`."""
        known = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in known.items() if value}

    def updated(self, **changes: Any) -> "About":
        """A copy with some entries changed."""
        return replace(self, **changes)

    @property
    def missing(self) -> str:
        """Which entries of the data were missing in the fit; see `nmf`."""
        return str(self.settings.get("missing", "nan"))

    def measured(self) -> dict[str, Any]:
        """The comparisons with other fits that were made."""
        known = {"standard": self.standard, "around": self.around, "compare": self.compare}
        return {name: value for name, value in known.items() if value is not None}

    def without_measured(self) -> "About":
        """The record for a fit derived from this one, without comparisons."""
        return replace(self, standard=None, around=None, compare=None)
