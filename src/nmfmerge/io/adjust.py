"""Options for data of any format: kinds and names of its sides, images, wavelengths, zeros."""

import math
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import ArgumentError, Given
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.build import UNNAMED
from nmfmerge.io.cubes import whole_pair
from nmfmerge.io.errors import FormatError
from nmfmerge.io.ids import are_ids, name_ids
from nmfmerge.io.memory import Memory
from nmfmerge.io.names import GivenNames, joined, name_side, read_lines

SIDES = ("rows", "columns")
ADJUSTMENTS = (
    "rows", "columns", "row_names", "column_names", "image_shape", "image_order", "wavelengths",
    "wavelength_unit", "drop_zero_rows", "drop_zero_columns",
)  # fmt: skip


def adjust(
    data: Dataset, given: Mapping[str, Any], memory: Memory, *, has_ids: bool = False
) -> Dataset:
    """Apply the options of `ADJUSTMENTS` that are given; numbers of rows and columns may be ids."""
    for side in SIDES:
        if side in given:
            data = replace(data, **{side: replace(getattr(data, side), name=given[side])})
    if "image_shape" in given:
        shape, order = parse_shape(given["image_shape"]), given.get("image_order", "C")
        data = _with_pictures(data, shape, check_order(order), memory.path)
    elif "image_order" in given:
        raise ArgumentError(
            "image_order",
            "has no effect without {image_shape}",
            value=given["image_order"],
            fix="add {image_shape=}",
        )
    if "wavelengths" in given:
        data = _with_wavelengths(
            data, given["wavelengths"], given.get("wavelength_unit", "nm"), memory
        )
    elif "wavelength_unit" in given:
        raise ArgumentError(
            "wavelength_unit",
            "has no effect without {wavelengths}",
            value=given["wavelength_unit"],
            fix="add {wavelengths=}",
        )
    for side, option in zip(SIDES, ("row_names", "column_names"), strict=True):
        if option in given:
            name = name_ids if has_ids and are_ids(getattr(data, side)) else name_side
            names = GivenNames.read(given[option], side, option, memory)
            data = name(data, side, names, memory.path)
    for side in SIDES:
        if given.get(f"drop_zero_{side}"):
            data = _without_zeros(data, side, memory.path)
    return data


def parse_shape(value: Any) -> tuple[int, int]:
    """Height and width of "64,64", "64x48" or (64, 64)."""
    pair = whole_pair(value)
    if pair is None or min(pair) < 1:
        raise ArgumentError(
            "image_shape",
            "is not an image size",
            value=value,
            fix="write height and width in pixels, such as 64,48",
        )
    return pair


def check_order(value: Any) -> Any:
    """The order of pixels: "C", row by row, or "F", column by column."""
    if value not in ("C", "F"):
        raise ArgumentError(
            "image_order",
            "is not an order of pixels",
            value=value,
            fix="write C (row by row) or F (column by column, as MATLAB does)",
        )
    return value


def check_wavelengths(value: Any) -> None:
    """Wavelengths, as `read` takes them: a file, or a number for each band."""
    if isinstance(value, str | PathLike):
        return
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty((0, 0))
    if numbers.ndim != 1:
        raise ArgumentError(
            "wavelengths",
            "are not numbers",
            value=value,
            fix="name a text file with one number a line, or give a list",
        )


def _with_pictures(data: Dataset, shape: tuple[int, int], order: Any, path: Path) -> Dataset:
    size = math.prod(shape)
    sides = [side for side in SIDES if len(getattr(data, side).values) == size]
    if len(sides) == 2:
        sides = [side for side in sides if getattr(data, side).name == "pixel"]
    if not sides:
        m, n = len(data.rows.values), len(data.columns.values)
        given = f"{shape[0]},{shape[1]}"
        if m == n == size:
            raise ArgumentError(
                "image_shape",
                "fits both the rows and the columns of {path}",
                value=given,
                fix="say which are pixels with {of_rows} or {of_columns}",
                path=path,
                of_rows=Given("rows", "pixel"),
                of_columns=Given("columns", "pixel"),
            )
        raise ArgumentError(
            "image_shape",
            f"has {size} pixels where {{path}} has {m} rows and {n} columns",
            value=given,
            expected="one of them to be the pixels",
            path=path,
        )
    side = sides[0]
    other = "columns" if side == "rows" else "rows"
    frames: Axis = getattr(data, other)
    if frames.name in UNNAMED:
        frames = replace(frames, name="frame")
    changed: dict[str, Any] = {
        side: replace(getattr(data, side), name="pixel"),
        other: frames,
    }
    return replace(data, **changed, image_shape=shape, image_order=order)


def _with_wavelengths(data: Dataset, given: Any, unit: str, memory: Memory) -> Dataset:
    numbers = _numbers(given, memory)
    known = [side for side in SIDES if getattr(data, side).name in ("wavelength", "band")]
    pixels = [side for side in SIDES if getattr(data, side).name == "pixel"]
    free = known or [side for side in SIDES if side not in pixels]
    sides = [side for side in free if len(getattr(data, side).values) == len(numbers)]
    if len(sides) != 1:
        m, n = len(data.rows.values), len(data.columns.values)
        raise ArgumentError(
            "wavelengths",
            f"has {len(numbers)} numbers where {{path}} has {m} rows and {n} columns",
            expected="" if sides else "one for each band",
            fix="say which are bands with {of_rows} or {of_columns}" if sides else "",
            path=memory.path,
            of_rows=Given("rows", "band"),
            of_columns=Given("columns", "band"),
        )
    changed: dict[str, Any] = {sides[0]: Axis("wavelength", numbers, unit)}
    return replace(data, **changed)


def _numbers(given: Any, memory: Memory) -> np.ndarray:
    if not isinstance(given, str | PathLike):
        return np.asarray(given, dtype=np.float64)
    file = Path(given)
    lines = [cells for cells in read_lines(file, memory) if any(cell.strip() for cell in cells)]
    try:
        numbers = np.array([float(cells[0]) for cells in lines])
    except ValueError as error:
        raise ArgumentError(
            "wavelengths",
            "holds a line that is not a number ({error})",
            value=str(given),
            fix="write one wavelength a line",
            error=error,
        ) from error
    if not np.isfinite(numbers).all():
        raise ArgumentError(
            "wavelengths",
            "holds numbers that are not finite",
            value=str(given),
            fix="write one wavelength a line",
        )
    return numbers


def _without_zeros(data: Dataset, side: str, path: Path) -> Dataset:
    """Leave out the rows or columns that are all zero."""
    X, axis = data.X, int(side == "rows")
    if sp.issparse(X):
        coordinates = X.tocoo()
        filled = np.zeros(X.shape[1 - axis], dtype=bool)
        filled[(coordinates.row if axis else coordinates.col)[coordinates.data != 0]] = True
    else:
        filled = np.asarray(X.any(axis=axis))
    dropped = int((~filled).sum())
    if dropped == 0:
        return data
    if dropped == len(filled):
        raise FormatError(f"{path} holds zeros only: check that the right array was read")
    entries: Axis = getattr(data, side)
    if data.image_shape is not None and entries.name == "pixel":
        raise ArgumentError(
            f"drop_zero_{side}",
            f"would remove {dropped} pixels from the images of {{path}}",
            value=True,
            fix="omit it",
            path=path,
        )
    note = f"{dropped} of {len(filled)} {side} that are all zero were dropped"
    changed: dict[str, Any] = {side: replace(entries, values=entries.values[filled])}
    return replace(
        data,
        X=X[filled] if axis else X[:, filled],
        **changed,
        description=joined(data.description, note),
    )
