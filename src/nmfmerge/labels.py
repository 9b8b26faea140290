"""Data that carry names: the matrix in them, and what their rows and columns stand for.

Comes in: whatever the user passed as X. A `Dataset` and an AnnData hold a matrix; tables of pandas
and arrays of xarray are one. Kinds are recognised by the module of their type: no library is
imported for that.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset


def matrix_of(X: Any) -> Any:
    """The matrix of a Dataset or an AnnData; anything else as it is."""
    if isinstance(X, Dataset):
        if X.X is None:
            raise ValueError(f"X is the Dataset {X.name!r} without its matrix: read its file again")
        return X.X
    if not _is(X, "anndata", "AnnData"):
        return X
    if X.isbacked:
        raise TypeError(
            "X is an AnnData that is backed by its file: pass X.to_memory(), or if it is too large "
            "for that nmfmerge.io.open_lazily(X.filename)"
        )
    if X.X is None:
        raise ValueError(f"X is an AnnData without X: pass {_matrices(X) or 'one that has it'}")
    return X.X


def axes_of(X: Any) -> Dataset | None:
    """What the rows and columns of X stand for, as a data set without a matrix; None if unknown."""
    if isinstance(X, Dataset):
        return replace(X, X=None, W=None, H=None)
    if _is(X, "anndata", "AnnData"):
        return _axes("AnnData", _axis("cell", X.obs_names), _axis("gene", X.var_names))
    if _is(X, "pandas", "DataFrame"):
        rows, columns = (
            _axis(str(index.name or name), index)
            for name, index in (("row", X.index), ("column", X.columns))
        )
        return _axes("DataFrame", rows, columns)
    if _is(X, "xarray", "DataArray") and len(getattr(X, "dims", ())) == 2:
        return _axes(str(X.name or "DataArray"), *(_coordinate(X, k) for k in range(2)))
    return None


def nonnegative_instead(X: Any) -> str:
    """What to do about negative values in X."""
    if _is(X, "anndata", "AnnData") and (matrices := _matrices(X)):
        return f"pass {matrices}"
    return "shift it, clip it or take magnitudes first"


def axis_values(values: Iterable[Any]) -> np.ndarray:
    """Values of an axis: numbers and dates as they are, anything else as text."""
    numbers = np.asarray(values)
    if numbers.ndim == 1 and numbers.dtype.kind in "iufM":
        return numbers
    names = ["/".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in values]
    return np.array(names, dtype=np.str_)


def _is(X: Any, package: str, name: str) -> bool:
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == package
        for base in type(X).__mro__
    )


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
