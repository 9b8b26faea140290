"""Why a matrix is refused, wherever it is: in memory, on a device, or in chunks."""

from typing import Any

from nmfmerge.arguments.errors import ArgumentError, ArgumentTypeError


def not_numbers(name: str, dtype: Any) -> ArgumentTypeError:
    """Of a type that is not real."""
    if getattr(dtype, "kind", "c") == "c":
        fix = "take abs({given})"
        return ArgumentTypeError(name, "is complex", expected="real values", fix=fix)
    fix = "convert it with {given}.astype(float)"
    return ArgumentTypeError(
        name, "has dtype {dtype}", expected="real numbers", fix=fix, dtype=dtype
    )


def not_a_matrix(name: str, ndim: int, kind: str = "array") -> ArgumentError:
    """Of another number of dimensions than two."""
    shape = "(-1, 1) for a single column" if ndim < 2 else "(-1, {given}.shape[-1]) for its rows"
    return ArgumentError(
        name,
        f"has {ndim} dimension(s)",
        expected=f"a 2-D {kind} of rows and columns",
        fix="use {given}.reshape" + shape,
    )


def empty(shape: tuple[int, ...]) -> ArgumentError:
    """Without rows or columns."""
    return ArgumentError("X", f"is empty: its shape is {shape}", expected="rows and columns")


def not_finite(where: str = "") -> ArgumentError:
    """With values that are no numbers."""
    return ArgumentError(
        "X",
        "contains NaN or infinity{where}",
        expected="finite values",
        fix="drop or fill those entries first",
        where=where and f" ({where})",
    )


def infinite(where: str) -> ArgumentError:
    """With infinite values; missing ones are NaN."""
    return ArgumentError(
        "X",
        "contains infinity ({where})",
        expected="finite values, or NaN where an entry is missing",
        where=where,
    )


def missing_zeros_in_dask(missing: str) -> ArgumentError:
    """Sparse in chunks, whose entries that are not stored are to be missing."""
    return ArgumentError(
        "missing",
        "is for a sparse X in memory, and X is a Dask array",
        value=missing,
        fix="pass X in memory, or dense chunks with NaN where an entry is missing",
    )


def weighted_chunks(loss: str) -> ArgumentError:
    """Weights of a Dask array, for the score by a loss that looks at its entries."""
    return ArgumentError(
        "weights",
        f"cannot be used for the score of a Dask array by {loss!r}",
        fix="pass X in memory, or leave them out",
    )


def missing_in_sparse_on_device() -> ArgumentError:
    """Sparse, with missing values or weights, on a device."""
    return ArgumentError(
        "X",
        "is sparse and has missing values or weights, which a GPU does not support",
        fix="leave out {device}, or pass a dense array with NaN where an entry is missing",
    )


def missing_values(user: str) -> ArgumentError:
    """With missing values, where all are needed."""
    return ArgumentError(
        "X",
        f"has missing values, which {user} does not support",
        expected="all entries",
        fix="fill them, as impute of a fit does",
    )


def unobserved(line: str, which: Any) -> ArgumentError:
    """With rows or columns of which nothing is known."""
    first = ", ".join(map(str, which[:3])) + (f" and {len(which) - 3} more" * (len(which) > 3))
    return ArgumentError(
        "X",
        f"has no observed entry in {line} {first}",
        expected="an observation in every row and column",
        fix="drop those rows and columns first",
    )


def negative(where: str, instead: str) -> ArgumentError:
    """With values below zero."""
    return ArgumentError(
        "X",  # scikit-learn looks for the first words
        "Negative values in data passed to NMF ({where}); {given} must be nonnegative",
        fix="{instead}",
        where=where,
        instead=instead,
    )
