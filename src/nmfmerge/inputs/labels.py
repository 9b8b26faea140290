"""Data that carry names: the matrix in them, and what their rows and columns stand for.

Input: any X of the user. A `Dataset` and an AnnData hold a matrix; tables of pandas and arrays of
xarray are one.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.inputs.conversion import is_a

_RAW = "raw"  # the layer that is .raw, as in readers


def matrix_of(X: Any) -> Any:
    """The matrix of a Dataset or an AnnData; anything else unchanged."""
    if isinstance(X, Dataset):
        if X.X is None:
            raise ValueError(f"X is the Dataset {X.name!r} without its matrix: read its file again")
        return X.X
    if not is_a(X, "anndata", "AnnData"):
        return X
    if X.isbacked:
        raise TypeError(
            "X is an AnnData that is backed by its file: pass X.to_memory(), or if it is too large "
            "for that nmfmerge.io.open_lazily(X.filename)"
        )
    if X.X is None:
        raise ValueError(f"X is an AnnData without X: pass {_matrices(X) or 'one that has it'}")
    return X.X


def part_of(X: Any, layer: str | None, mask_var: str | None) -> Any:
    """A layer of an AnnData, or its marked variables, with their names; else X unchanged.

    Parameters
    ----------
    X : object
        What the user passed.
    layer : str or None
        The layer to take instead of X; "raw" for .raw, unless a layer has that name.
    mask_var : str or None
        The column of var that is true for the variables to take.
    """
    if layer is None and mask_var is None:
        return X
    if not is_a(X, "anndata", "AnnData"):
        name, value = ("layer", layer) if mask_var is None else ("mask_var", mask_var)
        raise ArgumentError(
            name, f"is for an AnnData, and X is a {type(X).__name__}", value=value,
            fix="leave it out",
        )  # fmt: skip
    known = sorted({*X.layers, *[_RAW] * (X.raw is not None)})
    if layer is not None and layer not in known:
        raise ArgumentError("layer", "is not there", value=layer, expected=_one_of(known))
    source = X.raw if layer == _RAW and _RAW not in X.layers else X
    matrix = source.X if layer is None or source is not X else X.layers[layer]
    if layer is None:
        matrix = matrix_of(X)
    genes = source.var_names
    if mask_var is not None:
        mask = marked(source.var, mask_var)
        matrix, genes = matrix[:, mask], genes[mask]
    return Dataset("AnnData", matrix, None, _axis("cell", X.obs_names), _axis("gene", genes))


def marked(var: Any, mask_var: str) -> np.ndarray:
    """The column ``mask_var`` of a table of variables, which must be True and False."""
    if mask_var not in var:
        raise ArgumentError(
            "mask_var", "is no column of var", value=mask_var, expected=_one_of(list(var.columns))
        )
    mask = np.asarray(var[mask_var])
    if mask.dtype != bool:
        raise ArgumentError(
            "mask_var", "does not mark variables", value=mask_var,
            expected="a column of True and False",
        )  # fmt: skip
    return mask


def _one_of(names: list[Any]) -> str:
    return f"one of {', '.join(map(repr, names))}" if names else "one, and there is none"


def axes_of(X: Any) -> Dataset | None:
    """The meaning of the rows and columns of X, as a data set without a matrix; None if unknown."""
    if isinstance(X, Dataset):
        return replace(X, X=None, W=None, H=None)
    if is_a(X, "anndata", "AnnData"):
        return _axes("AnnData", _axis("cell", X.obs_names), _axis("gene", X.var_names))
    if is_a(X, "pandas", "DataFrame"):
        rows, columns = (
            _axis(str(index.name or name), index)
            for name, index in (("row", X.index), ("column", X.columns))
        )
        return _axes("DataFrame", rows, columns)
    if is_a(X, "xarray", "DataArray") and len(getattr(X, "dims", ())) == 2:
        return _axes(str(X.name or "DataArray"), *(_coordinate(X, k) for k in range(2)))
    return None


def nonnegative_instead(X: Any) -> str:
    """The remedy for negative values in X."""
    if is_a(X, "anndata", "AnnData") and (matrices := _matrices(X)):
        return f"pass {matrices}"
    return "shift it, clip it or take magnitudes first"


def axis_values(values: Iterable[Any]) -> np.ndarray:
    """Values of an axis: numbers and dates as they are, anything else as text."""
    numbers = np.asarray(values)
    if numbers.ndim == 1 and numbers.dtype.kind in "iufM":
        return numbers
    names = ["/".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in values]
    return np.array(names, dtype=np.str_)


def _axes(name: str, rows: Axis, columns: Axis) -> Dataset:
    return Dataset(name, None, None, rows, columns)


def _axis(name: str, values: Iterable[Any], unit: str = "") -> Axis:
    return Axis(name, axis_values(values), unit)


def _coordinate(X: Any, axis: int) -> Axis:
    """The coordinate along a dimension of an xarray, or numbers where it has none."""
    dim = X.dims[axis]
    if dim not in X.coords:
        return Axis(str(dim), np.arange(X.shape[axis]))
    coordinate = X.coords[dim]
    return _axis(str(dim), coordinate.to_index(), str(coordinate.attrs.get("units", "")))


def _matrices(adata: Any) -> str:
    """The matrices of an AnnData beside X that are not negative, as the user can pass them."""
    found = {f"X.layers[{name!r}]": layer for name, layer in adata.layers.items()}
    if adata.raw is not None:
        found["X.raw.X"] = adata.raw.X
    return " or ".join(name for name, A in found.items() if A.size and A.min() >= 0)
