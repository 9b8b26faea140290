"""A result in the files that its field opens next: tables, spectra, maps, sound, AnnData.

Input: a `Factorization` and its `Dataset`, whose axes determine the field. Output: files
in a folder. Each kind has an `Export` in `EXPORTS`; optional libraries are imported when used.
"""

from nmfmerge.export.base import Export
from nmfmerge.export.images import maps
from nmfmerge.export.registry import EXPORTS, suitable, write
from nmfmerge.export.single_cell import to_anndata
from nmfmerge.fields.names import top_names

__all__ = ["EXPORTS", "Export", "maps", "suitable", "to_anndata", "top_names", "write"]
