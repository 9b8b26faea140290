"""From what a reader found to a Dataset: one array chosen, checked, and given its axes."""

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import Given, Message
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.cubes import parse_pixel_axes, size_in_words, unfold
from nmfmerge.io.errors import FormatError
from nmfmerge.io.memory import Memory

_LISTED = 12  # names in a message, at most
_NAME = 40  # letters of each
UNNAMED = ("row", "column")  # names of axes of which nothing is known


def build(
    path: Path,
    X: Any,
    rows: Axis | None = None,
    columns: Axis | None = None,
    *,
    memory: Memory,
    image_shape: tuple[int, int] | None = None,
    description: str = "",
    pixel_axes: Any = None,
) -> Dataset:
    """Check X and make a Dataset of it; rows and columns without names are numbered.

    With ``pixel_axes`` X is a cube, of which these two axes become rows of pixels.
    """
    if pixel_axes is not None:
        X, image_shape = unfold(path, X, parse_pixel_axes(pixel_axes), memory)
    X = check_matrix(path, X, memory)
    m, n = X.shape
    memory.needs(8 * (m + n))
    if pixel_axes is not None:
        rows, columns = Axis("pixel", np.arange(m)), Axis("frame", np.arange(n))
    return Dataset(
        name=path.stem,
        X=X,
        n_components=None,
        rows=Axis(UNNAMED[0], np.arange(m)) if rows is None else rows,
        columns=Axis(UNNAMED[1], np.arange(n)) if columns is None else columns,
        description=description,
        image_shape=image_shape,
        source=str(path),
    )


def check_matrix(path: Path, X: Any, memory: Memory) -> Any:
    """Check that X is a matrix of real numbers; a sparse one becomes CSR."""
    if not sp.issparse(X):
        X = np.asarray(X)
    check_kind(path, X.dtype, X.shape)
    return _canonical(X, memory) if sp.issparse(X) else X


def check_kind(path: Path, dtype: Any, shape: tuple[int, ...]) -> None:
    """Check that an array of this type and shape is a matrix of real numbers."""
    if dtype.kind == "c":
        raise FormatError(f"{path} holds complex numbers: store their absolute values")
    if dtype.kind not in "fiub":
        raise FormatError(f"{path} holds {dtype} values, not numbers: store a numeric matrix")
    if len(shape) == 3:
        raise FormatError(
            Message(
                "{path} holds an array of 3 dimensions, {size}: name the two that are pixels with "
                "{axes}, or reshape it to a matrix and store that",
                path=path,
                size=size_in_words(shape),
                axes=Given("pixel_axes", "0,1"),
            )
        )
    if len(shape) != 2:
        raise FormatError(
            f"{path} holds an array of {len(shape)} dimension(s), {size_in_words(shape)}: reshape "
            "it to a matrix of rows and columns and store that"
        )
    if 0 in shape:
        raise FormatError(
            f"{path} holds an empty matrix, {size_in_words(shape)}: store one with entries"
        )


def _canonical(X: Any, memory: Memory) -> Any:
    """CSR without duplicates; indices out of range are an error here, not a crash later."""
    memory.needs(8 * sum(X.shape) + X.nnz * (X.dtype.itemsize + 16))
    if X.format in ("csr", "csc", "bsr"):
        if (X.indptr[1:] < X.indptr[:-1]).any():  # which SciPy checks only where entries are left
            raise ValueError("the row or column starts of its sparse matrix go backwards")
        X.check_format(full_check=True)
    X = X.tocsr()
    X.sum_duplicates()
    return X


def choose(path: Path, shapes: Mapping[str, Any], variable: str | None) -> str:
    """The name of the array to read, where a file may hold several.

    Parameters
    ----------
    path : Path
        The file, for messages.
    shapes : mapping of str to tuple of int or None
        Shape of each array that could be read, None where it is not known.
    variable : str or None
        The user's choice.
    """
    listed = ", ".join(
        f"{name[:_NAME]!r}" if shape is None else f"{name[:_NAME]!r} ({size_in_words(shape)})"
        for name, shape in islice(shapes.items(), _LISTED)
    )
    if len(shapes) > _LISTED:
        listed += f" and {len(shapes) - _LISTED} more"
    if not shapes:
        raise FormatError(f"{path} holds no numeric array: store the matrix in it")
    if variable is None and len(shapes) > 1:
        raise FormatError(
            Message(
                "{path} holds several arrays: choose one with {variable=}; it has {listed}",
                path=path,
                listed=listed,
            )
        )
    if variable is None:
        return next(iter(shapes))
    if variable not in shapes:
        raise FormatError(
            Message(
                "{path} has no array {name}: choose with {variable=} from {listed}",
                path=path,
                name=repr(variable),
                listed=listed,
            )
        )
    return variable


def named_axis(default: str, names: Iterable[str], title: str = "") -> Axis:
    """An axis of names, which are numbers where all of them are."""
    values = [str(name) for name in names]
    return Axis(title.strip() or default, _numbers(values))


def _numbers(names: list[str]) -> np.ndarray:
    for kind in (int, float):
        try:
            numbers = np.array([kind(name) for name in names if "_" not in name])
        except (ValueError, OverflowError):
            continue
        if len(numbers) == len(names) and numbers.dtype != object:
            return numbers
    return np.array(names, dtype=np.str_)
