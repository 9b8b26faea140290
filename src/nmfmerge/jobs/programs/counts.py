"""The counts of an AnnData or a Dataset: cells × genes, without those that are all zero."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import ArgumentError, ArgumentTypeError, Given
from nmfmerge.datasets.base import Dataset
from nmfmerge.fields.single_cell import cells_and_genes, cells_first, is_single_cell
from nmfmerge.inputs.conversion import is_a
from nmfmerge.io.single_cell import RAW, is_negative

_LOOKED_AT = 100_000  # values that show whether they are counts


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts of genes in cells.

    Attributes
    ----------
    X : CSR matrix (cells, genes)
        In floating point; no cell and no gene is all zero.
    cells, genes : arrays of str
        Names of the rows and columns of X.
    of_cells, of_genes : bool arrays
        Which of all cells and genes these are.
    all_cells, all_genes : arrays of str
        Names of all of them.
    """

    X: Any
    of_cells: np.ndarray
    of_genes: np.ndarray
    all_cells: np.ndarray
    all_genes: np.ndarray

    @property
    def cells(self) -> np.ndarray:
        """Names of the cells that have counts."""
        return self.all_cells[self.of_cells]

    @property
    def genes(self) -> np.ndarray:
        """Names of the genes that have counts."""
        return self.all_genes[self.of_genes]

    @property
    def dropped(self) -> np.ndarray:
        """Names of the cells that are left out."""
        return self.all_cells[~self.of_cells]

    def of(self, cells: np.ndarray) -> "Counts":
        """These counts of some of the cells alone, given as a mask."""
        of_cells = self.of_cells.copy()
        of_cells[of_cells] = cells
        return _filled(self.X[cells], of_cells, self.of_genes, self.all_cells, self.all_genes)


def counts_of(adata: Any, layer: str | None = None) -> Counts:
    """Find the counts, and leave out cells and genes that have none.

    Parameters
    ----------
    adata : AnnData or Dataset
        Cells and genes.
    layer : str, optional
        A layer of an AnnData instead of its X; "raw" for its .raw.

    Returns
    -------
    Counts
    """
    find = _of_dataset if isinstance(adata, Dataset) else _of_anndata
    X, cells, genes = find(adata, layer)
    if is_negative(X):
        where = f"the layer {layer!r}" if layer else "X"
        raise ArgumentError(
            "adata",
            "has negative values in {where}, as after sc.pp.scale, and gene programmes are made of "
            "counts",
            where=where,
            **_remedy(adata),
        )
    X = sp.csr_matrix(X, dtype=np.float32 if X.dtype == np.float32 else np.float64)
    if not np.isfinite(X.data).all():
        raise ArgumentError("adata", "has values that are not finite", expected="counts")
    of_cells, of_genes = (np.ones(len(names), dtype=bool) for names in (cells, genes))
    return _filled(X, of_cells, of_genes, cells, genes)


def check_axes(data: Dataset) -> None:
    """Check that the axes are cells and genes."""
    if not is_single_cell(data):
        raise ArgumentError(
            "adata",
            f"has {data.rows.name!r} and {data.columns.name!r}",
            expected="'cell' and 'gene', as the readers of .h5ad and 10x files name their axes",
            fix="name the axes of other data: {rows} and {columns}, or the other way round",
            rows=Given("rows", "gene"),
            columns=Given("columns", "cell"),
        )


def counts_elsewhere(adata: Any, layer: str | None = None) -> list[str]:
    """The layers of whole numbers in an AnnData, where the chosen one has other values."""
    if isinstance(adata, Dataset) or _is_whole(_matrix(adata, layer)):
        return []
    return [name for name in _layers(adata) if name != layer and _is_whole(_matrix(adata, name))]


def _filled(
    X: Any, of_cells: np.ndarray, of_genes: np.ndarray, cells: np.ndarray, genes: np.ndarray
) -> Counts:
    """Leave out rows and columns of X that are all zero; the masks say which they are of all."""
    rows, columns = (np.asarray(X.sum(axis=axis)).ravel() > 0 for axis in (1, 0))
    if not rows.any():
        raise ArgumentError("adata", "has no counts: all of them are zero")
    of_cells, of_genes = of_cells.copy(), of_genes.copy()
    of_cells[of_cells], of_genes[of_genes] = rows, columns
    return Counts(X[rows][:, columns], of_cells, of_genes, cells, genes)


def _of_dataset(data: Dataset, layer: str | None) -> tuple[Any, np.ndarray, np.ndarray]:
    if layer is not None:
        raise ArgumentError("layer", "is for an AnnData", value=layer, fix="leave it out")
    check_axes(data)
    cells, genes = (axis.values.astype(np.str_) for axis in cells_and_genes(data))
    return (data.X if cells_first(data) else data.X.T), cells, genes


def _of_anndata(adata: Any, layer: str | None) -> tuple[Any, np.ndarray, np.ndarray]:
    if not is_a(adata, "anndata", "AnnData"):
        raise ArgumentTypeError(
            "adata", f"is a {type(adata).__name__}", expected="an AnnData, or a Dataset of cells"
        )
    if adata.isbacked:
        raise ArgumentTypeError(
            "adata", "is backed by its file", fix="read it into memory: adata.to_memory()"
        )
    if layer is not None and layer not in _layers(adata):
        known = ", ".join(map(repr, _layers(adata))) or "none"
        raise ArgumentError("layer", "is not there", value=layer, expected=f"one of {known}")
    X = _matrix(adata, layer)
    if X is None:
        raise ArgumentError("adata", "has no X", **_remedy(adata))
    genes = adata.raw.var_names if _is_raw(adata, layer) else adata.var_names
    return X, np.asarray(adata.obs_names, dtype=np.str_), np.asarray(genes, dtype=np.str_)


def _is_raw(adata: Any, layer: str | None) -> bool:
    return layer == RAW and RAW not in adata.layers


def _matrix(adata: Any, layer: str | None) -> Any:
    if _is_raw(adata, layer):
        return adata.raw.X
    return adata.X if layer is None else adata.layers[layer]


def _layers(adata: Any) -> list[str]:
    """The allowed values of ``layer``."""
    return sorted({*adata.layers, *[RAW] * (adata.raw is not None)})


def _remedy(adata: Any) -> dict[str, Any]:
    """The remedy for an error: the layers that have no negative values, counts first."""
    known = [] if isinstance(adata, Dataset) else _layers(adata)
    known = [name for name in known if not is_negative(_matrix(adata, name))]
    known.sort(key=lambda name: not _is_whole(_matrix(adata, name)))
    if not known:
        return {"fix": "give counts"}
    others = "".join(f" or {name!r}" for name in known[1:])
    return {"fix": "choose {first}" + others, "first": Given("layer", known[0])}


def _is_whole(X: Any) -> bool:
    """True if a matrix has whole numbers of at least 0, from a sample of its values."""
    if X is None:
        return False
    values = X.data if sp.issparse(X) else np.asarray(X).ravel()
    values = values[:: max(1, values.size // _LOOKED_AT)]
    return bool((values >= 0).all() and (values == np.rint(values)).all())
