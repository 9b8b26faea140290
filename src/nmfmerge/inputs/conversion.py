"""Matrices of other libraries: converted where that is unambiguous, else refused with the remedy.

Input: any object. Output: a NumPy array, a CSR or CSC matrix in canonical form, or the object
itself. Kinds are recognised by the module of their type: no library is imported for that.
"""

from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ArgumentError, ArgumentTypeError

_STORED_SPARSE = (  # the matrix of an AnnData that is backed by its file
    "read it into memory: pass {0}.to_memory(), or if it is too large for that "
    "anndata.experimental.read_elem_lazy({0}.group)"
)
# Package and type (None: any type of the package): what to write instead of X.
_INSTEAD: dict[tuple[str, str | None], str] = {
    ("dask", "Array"): "computing it can take long and all memory: pass {0}.compute()",
    ("dask", None): "pass {0}.to_dask_array(), or in memory {0}.compute().to_numpy()",
    ("cupy", None): "pass {0}.get()",
    ("cupyx", None): "pass {0}.get()",
    ("jax", None): "pass numpy.asarray({0})",
    ("jaxlib", None): "pass numpy.asarray({0})",
    ("tensorflow", None): "pass {0}.numpy()",
    ("anndata", "_CSRDataset"): _STORED_SPARSE,
    ("anndata", "_CSCDataset"): _STORED_SPARSE,
    ("anndata", None): "pass its matrix, {0}.X, or one of {0}.layers",
    ("mudata", None): "pass the matrix of one modality, {0}.mod[name].X",
    ("polars", "LazyFrame"): "pass {0}.collect().to_numpy()",
    ("polars", "Series"): "pass a table of rows and columns, or {0}.to_numpy().reshape(-1, 1)",
    ("pyarrow", "Table"): "pass {0}.to_pandas().to_numpy()",
    ("h5py", "Group"): "pass one of its datasets, read into memory: {0}[name][:]",
    ("h5py", "File"): "pass one of its datasets, read into memory: {0}[name][:]",
    ("h5py", None): "read it into memory: pass {0}[:], or if it is too large for that "
    "dask.array.from_array({0})",
    ("zarr", "Group"): "pass one of its arrays, read into memory: {0}[name][:]",
    ("zarr", None): "read it into memory: pass {0}[:], or if it is too large for that "
    "dask.array.from_zarr({0})",
    ("sparse", None): "pass {0}.to_scipy_sparse()",
    ("xarray", "Dataset"): "pass one of its variables, {0}[name]",
}


def is_a(A: Any, package: str, name: str) -> bool:
    """True if A is of this type, or of a subclass of it."""
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == package
        for base in type(A).__mro__
    )


def refuse(name: str, A: Any) -> None:
    """Raise if A is of a kind that the user must convert.

    Parameters
    ----------
    name : str
        The argument, as the user typed it.
    A : object
        What the user passed.
    """
    package, kind = _origin(A)
    instead = _INSTEAD.get((package, kind)) or _INSTEAD.get((package, None))
    if instead:
        raise ArgumentTypeError(name, f"is a {package}.{kind}", fix=instead.format(name))
    if (package, kind) == ("xarray", "DataArray"):
        refuse(f"{name}.data", A.data)  # NumPy would compute or read it without a word


def to_numpy(name: str, A: Any, missing_allowed: bool = False) -> Any:
    """Convert tables whose columns NumPy does not know; refuse what the user must convert.

    Missing entries become NaN where they are allowed.
    """
    refuse(name, A)
    return _from_pandas(name, A, missing_allowed) if is_a(A, "pandas", "DataFrame") else A


def _origin(A: Any) -> tuple[str, str]:
    """Package and name of the type of A, or of the first of its bases that is known here."""
    known = {package for package, _ in _INSTEAD}
    for base in type(A).__mro__:
        package = base.__module__.partition(".")[0]
        if package in known:
            return package, base.__name__
    return "", type(A).__name__


def _from_pandas(name: str, A: Any, missing_allowed: bool) -> Any:
    """Nullable columns (Int64, Float64, boolean) become float64; others are left to NumPy."""
    extended = [dtype for dtype in A.dtypes if not isinstance(dtype, np.dtype)]
    if not extended:
        return A
    if all(str(dtype).startswith("Sparse") for dtype in A.dtypes):
        raise ArgumentTypeError(
            name, "is a pandas.DataFrame of sparse columns", fix=f"pass {name}.sparse.to_coo()"
        )
    text = [str(label) for label, dtype in A.dtypes.items() if dtype.kind not in "fiub"]
    if text:
        raise ArgumentTypeError(
            name,
            "has columns that are not numbers ({columns})",
            fix=f"drop them, or convert them with {name}.astype(float)",
            columns=_few(text),
        )
    missing = A.isna().to_numpy()
    if missing.any() and not missing_allowed:
        row, column = np.argwhere(missing)[0]
        raise ArgumentError(
            name,
            "has missing values (the first in row {row}, column {column})",
            expected="all entries",
            fix=f"drop or fill them first, with {name}.dropna() or {name}.fillna(0)",
            row=row,
            column=repr(str(A.columns[column])),
        )
    single = all(str(dtype).lower() in ("float16", "float32") for dtype in A.dtypes)
    return A.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)


def _few(labels: list[str]) -> str:
    return ", ".join(labels[:3]) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")


def to_compressed(name: str, A: Any, dtype: np.dtype) -> Any:
    """A SciPy sparse matrix as CSR or CSC of this dtype; sorted, no entry twice, indices in range.

    It shares memory with A where A is like that already; A itself is never changed.
    """
    try:
        A = _rebuilt(A).astype(dtype, copy=False)
        if A.format not in ("csr", "csc"):
            A = _rebuilt(A.tocsr())
    except (ValueError, IndexError, OverflowError) as error:
        raise ArgumentError(
            name,
            f"is a damaged sparse matrix of shape {A.shape}: {{error}}. Build it again from rows, "
            "columns and values, with scipy.sparse.coo_array",
            error=error,
        ) from error
    if not A.has_canonical_format:
        A = A.copy()
        A.sum_duplicates()
    return A


def _rebuilt(A: Any) -> Any:
    """Another object on the same arrays: SciPy checks these, and forgets that they were sorted."""
    if A.format == "coo":
        return type(A)((A.data, (A.row, A.col)), shape=A.shape)
    if A.format not in ("csr", "csc", "bsr"):
        return A
    A = type(A)((A.data, A.indices, A.indptr), shape=A.shape)
    A.check_format(full_check=True)
    return A
