"""The exports of a fit that is written to a folder."""

from collections.abc import Collection
from pathlib import Path

from nmfmerge.export.base import ExportSource
from nmfmerge.export.registry import suitable, write_all
from nmfmerge.results.lazy_factors import is_mapped
from nmfmerge.storage.folder import Fit


class Exports:
    """Writes a fit in the files of its field, for `folder.write`; keeps what was left out."""

    def __init__(self, fit: Fit, requested: Collection[str] = ()) -> None:
        file = Path(fit.about.file or "")
        is_known = fit.data.X is not None and file != Path() and file.exists()
        known = file if is_known else None  # else it is not there, or not as it was
        self._source = ExportSource(fit.result.numpy(), fit.data, known, fit.about)
        self._requested = requested
        self._too_large = is_mapped(fit.result.W) or is_mapped(fit.result.H)
        self.left_out: dict[str, str] = {}

    def __call__(self, folder: Path) -> None:
        """Write all that suits the data into a folder."""
        if self._too_large:
            self.left_out = {
                export.name: f"{export.description}; a factor is too large for memory"
                for export in suitable(self._source.data, self._requested)
            }
            return
        self.left_out = write_all(folder, self._source, self._requested, keep_going=True)

    @property
    def remarks(self) -> str:
        """The files that were not written and why, for the terminal."""
        return "".join(f"\nnot written: {reason}" for reason in self.left_out.values())
