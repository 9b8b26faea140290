"""A result in the files that its field opens next: tables, spectra, maps, sound, AnnData.

Comes in: a `Factorization` and the `Dataset` it is of, whose axes tell the field. Goes out: files
in a folder. Each kind has an `Export` in `EXPORTS`; optional libraries are imported when used.
"""

from nmfmerge.export.base import Export
from nmfmerge.export.registry import EXPORTS, suitable, write

__all__ = ["EXPORTS", "Export", "suitable", "write"]
