"""Weights of the entries of X from a file of their own, which is laid out as the data file is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ArgumentError, Given
from nmfmerge.datasets.base import Dataset
from nmfmerge.io.errors import FormatError
from nmfmerge.io.registry import find_format, read

_LAYOUT = ("header", "triplets", "decimal", "pixel_axes")  # as for a data file of the same format
_EVERYWHERE = ("transpose", "max_memory")
_REFUSED = ("drop_zero_rows", "drop_zero_columns")


def read_weights(path: Path, data: Dataset, file: Path, reading: Mapping[str, Any]) -> Any:
    """Read the weights of the entries of X; `nmf` checks their values.

    Parameters
    ----------
    path : Path
        A file with a weight for each entry of X, or for each row or column.
    data : Dataset
        What was read from the data file.
    file : Path
        The data file.
    reading : mapping
        The options that it was read with. ``transpose`` is also for the weights, and so are the
        options of tables and arrays if both files have the same format.

    Returns
    -------
    array or CSR matrix
        Of the shape of X, or with one row or one column, or with one dimension.
    """
    check_weights_options(path, reading)
    if path.exists() and file.exists() and path.samefile(file):
        raise ArgumentError(
            "weights",
            "is the data file itself",
            value=str(path),
            expected="a file with a weight for each entry",
        )
    known = _read_alone(path, weights_options(path, file, reading))
    _check_shape(path, known.X.shape, data.X.shape)
    for side, option in (("rows", "row_names"), ("columns", "column_names")):
        if option not in reading:
            _check_names(path, known, data, side, file)
    is_line = 1 in known.X.shape and known.X.shape not in _lines(data.X.shape)
    return _dense(known.X).ravel() if is_line else known.X


def check_weights_options(path: Path, reading: Mapping[str, Any]) -> None:
    """Refuse the options that leave out rows and columns, which the weights would still have."""
    for option in _REFUSED:
        if reading.get(option):
            raise ArgumentError(
                option,
                "cannot be used with {weights}",
                value=True,
                fix="drop these rows and columns from both files, and omit it",
                weights=Given("weights", str(path)),
            )


def weights_options(path: Path, file: Path, reading: Mapping[str, Any]) -> dict[str, Any]:
    """The options to read a file of weights with, from those of the data file."""
    taken: tuple[str, ...] = _EVERYWHERE
    if find_format(path) is find_format(file):
        taken += _LAYOUT
    return {name: reading[name] for name in taken if name in reading}


def _read_alone(path: Path, options: Mapping[str, Any]) -> Dataset:
    """Read a file with one array; ``variable`` chooses in the data file only."""
    try:
        return read(path, **options)
    except FormatError as error:
        if "variable" not in str(error):
            raise
        raise FormatError(
            f"{path} holds several arrays: store the weights as the only one of a file"
        ) from None


def _lines(shape: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Shapes of one weight for each row, and for each column."""
    return (shape[0], 1), (1, shape[1])


def _check_shape(path: Path, found: tuple[int, int], shape: tuple[int, int]) -> None:
    size = found[0] * found[1]
    if found == shape or found in _lines(shape) or (1 in found and size in shape):
        return
    raise ArgumentError(
        "weights",
        f"is {found[0]} × {found[1]} and the data are {shape[0]} × {shape[1]}",
        value=str(path),
        expected="a weight for each entry, or one for each row or column",
    )


def _check_names(path: Path, known: Dataset, data: Dataset, side: str, file: Path) -> None:
    """Refuse rows or columns in another order, where both files have names or numbers for them."""
    names, expected = (getattr(each, side).values for each in (known, data))
    kinds = names.dtype.kind + expected.dtype.kind
    are_numbers = set(kinds) <= set("iuf")
    if len(names) != len(expected) or not (are_numbers or kinds == "UU"):
        return
    if are_numbers and (_is_numbering(names) or _is_numbering(expected)):
        return
    same = np.isclose(names, expected, rtol=1e-9) if are_numbers else names == expected
    other = np.flatnonzero(~same)
    if len(other):
        k = int(other[0])
        raise ArgumentError(
            "weights",
            f"has other {side} than {{file}}, {{found}} where that has {{wanted}}",
            value=str(path),
            fix="put them in the same order, or leave out the names",
            file=file,
            found=repr(str(names[k])),
            wanted=repr(str(expected[k])),
        )


def _is_numbering(values: np.ndarray) -> bool:
    """True if rows or columns are numbered from 0, as they are without names."""
    return bool(np.array_equal(values, np.arange(len(values))))


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)
