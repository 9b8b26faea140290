"""A fit of cells × genes as AnnData, in the places where scanpy looks."""

import warnings
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.export.base import Export, ExportSource
from nmfmerge.fields.names import component_name, heads_of, order_by, top_names
from nmfmerge.fields.single_cell import cells_and_genes, cells_first, is_single_cell
from nmfmerge.io.errors import library
from nmfmerge.io.single_cell import RAW
from nmfmerge.metrics import specificity
from nmfmerge.results.factorization import Factorization

_RANKED = 100  # genes of each component in uns["rank_genes_nmf"]
_TINY = 1e-9  # added to both sides of a ratio, as scanpy does


def to_anndata(
    result: Factorization,
    data: Dataset,
    adata: Any = None,
    *,
    layer: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """Put a fit of cells and genes into an AnnData, as scanpy expects it.

    Parameters
    ----------
    result : Factorization
        The factors.
    data : Dataset
        What was factorized, as `nmfmerge.io.read` gave it: one axis is "cell", the other "gene".
    adata : AnnData, optional
        Where to put it; by default a new one is made of X and the names. Cells and genes that
        ``data`` does not have, because they are all zero, get zeros. They are matched by name,
        and by order where names are repeated and the same from first to last.
    layer : str, optional
        The layer of ``adata`` that was fitted, to be recorded. For "raw", its .raw, whose genes
        are others than those of ``adata``, ``adata.raw.to_adata()`` takes its place.
    settings : mapping, optional
        Settings of the fit, to be recorded.

    Returns
    -------
    adata : AnnData
        With ``obsm["X_nmf"]`` (cells × components) and ``varm["NMF"]`` (genes × components), whose
        product is the fit; ``obs["nmf"]``, the component that has most of each cell;
        ``uns["nmf"]`` with fitting_error (percent), n_components, names, shares (percent),
        top_genes (a table: component, component name, rank, gene, weight, specificity), settings,
        layer and version; and ``uns["rank_genes_nmf"]``, the genes of each component by
        specificity, for ``sc.pl.rank_genes_groups(adata, key="rank_genes_nmf")`` and the like.
    """
    if not is_single_cell(data):
        raise ValueError(
            f"data={data.name!r} has {data.rows.name!r} and {data.columns.name!r}: expected 'cell' "
            "and 'gene', as the readers of .h5ad and 10x files name their axes"
        )
    return _put(result, data, adata, layer, settings)


def _put(
    result: Factorization,
    data: Dataset,
    adata: Any,
    layer: str | None,
    settings: Mapping[str, Any] | None,
    renamed: bool = False,
) -> Any:
    """Put a fit into an AnnData; see `to_anndata`, and `_places` for ``renamed``."""
    result = result.numpy()
    adata = new_anndata(data) if adata is None else _with_genes_of(layer, adata)
    cells, genes = (result.W, result.H.T) if cells_first(data) else (result.H.T, result.W)
    of_cells, of_genes = cells_and_genes(data)
    cells = _placed(cells, _places(of_cells, adata, layer, renamed), adata.n_obs)
    genes = _placed(genes, _places(of_genes, adata, layer, renamed), adata.n_vars)
    names = [component_name(result, k) for k in range(result.n_components)]
    adata.obsm["X_nmf"], adata.varm["NMF"] = cells, genes
    adata.obs["nmf"] = _most(cells * genes.sum(axis=0), names)
    adata.uns["nmf"] = _facts(result, data, names, layer, settings or {})
    adata.uns["rank_genes_nmf"] = _ranked(genes, np.array(adata.var_names, dtype=object), names)
    return adata


def new_anndata(data: Dataset) -> Any:
    """An AnnData of X and the names."""
    anndata = library("anndata", "AnnData", "anndata", "single-cell", doing="writing")
    pandas = library("pandas", "AnnData", "pandas", "single-cell", doing="writing")
    obs, var = (pandas.DataFrame(index=axis.values.astype(str)) for axis in cells_and_genes(data))
    X = data.X if data.X is None or cells_first(data) else data.X.T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are not unique
        return anndata.AnnData(X.tocsr() if hasattr(X, "tocsr") else X, obs=obs, var=var)


def _with_genes_of(layer: str | None, adata: Any) -> Any:
    """The AnnData, or one of its .raw where that was fitted and has other genes."""
    if not _is_raw(adata, layer) or np.array_equal(adata.raw.var_names, adata.var_names):
        return adata
    return adata.raw.to_adata()


def _is_raw(adata: Any, layer: str | None) -> bool:
    return layer == RAW and RAW not in adata.layers and adata.raw is not None


def _placed(F: np.ndarray, places: np.ndarray, n: int) -> np.ndarray:
    """The rows of a factor at their places among n, zeros elsewhere."""
    placed = np.zeros((n, F.shape[1]), F.dtype)
    placed[places] = F
    return placed


def _places(axis: Axis, adata: Any, layer: str | None, renamed: bool) -> np.ndarray:
    """Where the cells or genes of a fit are in an AnnData.

    By order where the names are the same from first to last, of all or of those that are not all
    zero; by name where each name is there once. With ``renamed`` also by order if no name is the
    same: then the names were given when the AnnData was read.
    """
    what, names = ("cells", adata.obs_names) if axis.name == "cell" else ("genes", adata.var_names)
    own, names = axis.values.astype(str), np.asarray(names, dtype=np.str_)
    everything = np.arange(len(names))
    if np.array_equal(own, names):
        return everything
    by_name = _by_name(own, names)
    if by_name is not None:
        return by_name
    filled = np.flatnonzero(_filled(adata, layer, axis.name))
    if np.array_equal(own, names[filled]):
        return filled
    if renamed and not np.isin(own, names).any():
        for places in (everything, filled):
            if len(places) == len(own):
                return places
    raise ValueError(
        f"adata has {len(names)} {what} and the fit has {len(own)}, which are not all among them "
        "by a name of their own: give the AnnData that was fitted"
    )


def _by_name(own: np.ndarray, names: np.ndarray) -> np.ndarray | None:
    """The place of each name; None where one is not there, or there more than once."""
    order = np.argsort(names, kind="stable")
    first, end = (np.searchsorted(names, own, side, sorter=order) for side in ("left", "right"))
    if (end - first != 1).any() or len(np.unique(own)) < len(own):
        return None
    return order[first]


def _filled(adata: Any, layer: str | None, axis: str) -> np.ndarray:
    """Which cells or genes are not all zero."""
    X = adata.raw.X if _is_raw(adata, layer) else adata.layers.get(layer, adata.X)
    if X is None:
        return np.ones(adata.n_obs if axis == "cell" else adata.n_vars, dtype=bool)
    return np.asarray((X != 0).sum(axis=int(axis == "cell"))).ravel() > 0


def _most(parts: np.ndarray, names: list[str]) -> Any:
    """The name of the largest part of each cell, as a category; none where all are zero."""
    pandas = library("pandas", "AnnData", "pandas", "single-cell", doing="writing")
    largest = np.where(parts.any(axis=1), parts.argmax(axis=1), -1)
    return pandas.Categorical.from_codes(largest, _unique(names))


def _facts(
    result: Factorization,
    data: Dataset,
    names: list[str],
    layer: str | None,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    pandas = library("pandas", "AnnData", "pandas", "single-cell", doing="writing")
    top = top_names(result, data, "gene")
    facts = {
        "fitting_error": float(result.fitting_error),
        "n_components": int(result.n_components),
        "names": np.array(names, dtype=object),
        "shares": result.shares(),
        "status": str(result.status),
        "top_genes": pandas.DataFrame(
            list(map(tuple, top)), columns=heads_of(cells_and_genes(data)[1])
        ),
        "settings": {name: _plain(value) for name, value in settings.items() if value is not None},
        "version": version("nmfmerge"),
    }
    return facts if layer is None else facts | {"layer": layer}


def _plain(value: Any) -> Any:
    """A value that .h5ad files store."""
    return value if isinstance(value, bool | int | float | str) else str(value)


def _ranked(genes: np.ndarray, gene_names: np.ndarray, names: list[str]) -> dict[str, Any]:
    """The genes of each component in the layout of `scanpy.tl.rank_genes_groups`.

    The scores are specificities; a logarithm of 2 is that of the gene's part in the component
    over its mean part in the others. There is no test, and p values are NaN. Genes that a
    component does not have come last, with score 0.
    """
    scores, groups = np.where(genes > 0, specificity(genes), 0), _unique(names)
    parts = genes / np.where(genes.any(axis=0), genes.sum(axis=0), 1)
    others = (parts.sum(axis=1, keepdims=True) - parts) / max(1, len(names) - 1)
    changes = np.log2((parts + _TINY) / (np.maximum(others, 0) + _TINY))
    n = min(_RANKED, len(genes))
    orders = [_order_all(scores[:, k], genes[:, k])[:n] for k in range(len(names))]
    columns: dict[str, list[np.ndarray]] = {
        "names": [gene_names[order] for order in orders],
        "scores": [scores[order, k].astype("f4") for k, order in enumerate(orders)],
        "logfoldchanges": [changes[order, k].astype("f4") for k, order in enumerate(orders)],
        "pvals": [np.full(n, np.nan) for _ in orders],
        "pvals_adj": [np.full(n, np.nan) for _ in orders],
    }
    params = {
        "groupby": "nmf", "reference": "rest", "method": "specificity", "use_raw": False,
    }  # fmt: skip
    return {"params": params} | {name: _records(groups, values) for name, values in columns.items()}


def _order_all(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """All genes of a component, as `order_by` has them, then those without a weight."""
    return np.concatenate([order_by(scores, weights, len(weights)), np.flatnonzero(weights <= 0)])


def _records(names: list[str], columns: list[np.ndarray]) -> np.ndarray:
    """A table whose columns have names, as NumPy keeps them."""
    kinds = [(name, column.dtype) for name, column in zip(names, columns, strict=True)]
    table = np.empty(len(columns[0]), dtype=kinds)
    for name, column in zip(names, columns, strict=True):
        table[name] = column
    return table


def _unique(names: list[str]) -> list[str]:
    """The names where they differ, numbers before them where they do not."""
    return names if len(set(names)) == len(names) else [f"{k}: {n}" for k, n in enumerate(names, 1)]


def _read_whole(anndata: Any, file: Path | None) -> Any:
    """The AnnData that was fitted; None if it was no AnnData, or not all of it can be read."""
    if file is None or file.suffix.lower() != ".h5ad":
        return None
    try:
        return anndata.read_h5ad(file)
    except Exception:  # of what is not in X and the names, which the fit did not need
        return None


def _write(folder: Path, source: ExportSource) -> None:
    anndata = library("anndata", "result.h5ad", "anndata", "single-cell", doing="writing")
    reading = source.about.reading
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are not unique, and of old files
        adata = _put(
            source.result,
            source.data,
            _read_whole(anndata, source.file),
            reading.get("layer"),
            source.about.settings or None,
            renamed=True,
        )
        adata.write_h5ad(folder / "result.h5ad")


EXPORT = Export(
    "anndata",
    "result.h5ad: the AnnData of the data with the components in it, for scanpy",
    is_single_cell,
    _write,
)
