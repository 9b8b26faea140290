"""Cells in groups: what an .h5ad file says of its cells, such as their types and samples."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.datasets.base import Dataset
from nmfmerge.fields.single_cell import cells_and_genes, is_single_cell
from nmfmerge.io.errors import library

MOST_GROUPS = 40  # a column with more of them says little of any
_FIRST = (  # columns that are shown first, if they exist
    "cell_type", "celltype", "cell_types", "cell type", "annotation", "leiden", "louvain",
    "cluster", "clusters", "sample", "donor", "batch",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Groups:
    """Cells in groups: the names of the groups, and the group of each cell (-1: none)."""

    names: tuple[str, ...]
    codes: np.ndarray

    def averaging(self) -> sp.csr_array:
        """The matrix (groups × cells) that takes the mean over the cells of each group."""
        cells = np.flatnonzero(self.codes >= 0)
        groups = self.codes[cells]
        sizes = np.bincount(groups, minlength=len(self.names))
        shape = len(self.names), len(self.codes)
        return sp.csr_array((1 / sizes[groups], (groups, cells)), shape=shape)


def groupings(data: Dataset) -> dict[str, Groups]:
    """The columns of ``obs`` that put cells into a few groups, by name; none if they are not known.

    Columns that are usually types or clusters of cells come first.
    """
    file = Path(data.source)
    if not is_single_cell(data) or file.suffix.lower() != ".h5ad" or not file.is_file():
        return {}
    cells, _ = cells_and_genes(data)
    try:
        found = _columns(_obs(file), np.asarray(cells.values).astype(str))
    except Exception:  # whatever odd files make their readers raise: cells then have no groups
        return {}
    return dict(sorted(found.items(), key=_place))


def _obs(file: Path) -> Any:
    h5py = library("h5py", ".h5ad", "h5py", "single-cell")
    read_elem = library("anndata.io", ".h5ad", "anndata", "single-cell").read_elem
    with warnings.catch_warnings(), h5py.File(file, "r") as opened:
        warnings.simplefilter("ignore")  # of early versions
        return read_elem(opened["obs"])


def _columns(obs: Any, cells: np.ndarray) -> Mapping[str, Groups]:
    """Columns that are categories, texts or yes and no, for the cells that were read."""
    if not np.array_equal(obs.index.astype(str), cells):  # cells without counts were left out
        obs = obs.set_index(obs.index.astype(str)).loc[cells]
    if len(obs) != len(cells):  # some names are repeated
        return {}
    found = {}
    for name in obs.columns:
        if obs[name].dtype.kind in "iuf":
            continue
        column = obs[name].astype("category").cat.remove_unused_categories()
        if 2 <= len(column.cat.categories) <= MOST_GROUPS:
            names = tuple(str(group) for group in column.cat.categories)
            found[str(name)] = Groups(names, np.asarray(column.cat.codes, dtype=np.intp))
    return found


def _place(found: tuple[str, Groups]) -> int:
    name = found[0].casefold()
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)
