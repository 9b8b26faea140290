"""Cubes of three dimensions, two of which are pixels: they become a matrix, pixels × the third."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import ArgumentError, Given, Message
from nmfmerge.io.errors import FormatError
from nmfmerge.io.memory import Memory


def unfold(
    path: Path, cube: Any, pixel_axes: tuple[int, int], memory: Memory
) -> tuple[np.ndarray, tuple[int, int]]:
    """The matrix of a cube, and height and width of its pictures.

    Parameters
    ----------
    path : Path
        The file, for messages.
    cube : array
        Of three dimensions; others of length 1 are left out.
    pixel_axes : tuple of int
        The axes along the height and the width of a picture, counted from 0.
    memory : Memory
        What the matrix may take.
    """
    given = Given("pixel_axes", f"{pixel_axes[0]},{pixel_axes[1]}")
    shape = cube.shape
    if sp.issparse(cube) or len(shape) < 3:
        raise FormatError(
            Message(
                "{path} holds an array of {n} dimension(s), {size}, and not a cube: leave out "
                "{given}, and say with {image_shape=} how its pixels fold",
                path=path,
                n=len(shape),
                size=size_in_words(shape),
                given=given,
            )
        )
    axes = [axis + len(shape) if axis < 0 else axis for axis in pixel_axes]
    if not all(0 <= axis < len(shape) for axis in axes) or axes[0] == axes[1]:
        raise FormatError(
            Message(
                "{given} does not name two axes of {path}, whose array is {size}: choose from 0 to "
                "{last}",
                given=given,
                path=path,
                size=size_in_words(shape),
                last=len(shape) - 1,
            )
        )
    others = [axis for axis in range(len(shape)) if axis not in axes]
    if sum(shape[axis] > 1 for axis in others) > 1:
        raise FormatError(
            f"{path} holds an array of {len(shape)} dimensions, {size_in_words(shape)}: store one "
            "of three, with one beside the pixels"
        )
    memory.needs(2 * cube.nbytes)
    height, width = (int(shape[axis]) for axis in axes)
    folded = np.transpose(cube, (*axes, *others))
    return folded.reshape(height * width, -1 if height * width else 0), (height, width)


def parse_pixel_axes(value: Any) -> tuple[int, int]:
    """Two axes of "0,1" or (0, 1), counted from 0."""
    pair = whole_pair(value)
    if pair is None or pair[0] == pair[1]:
        raise ArgumentError(
            "pixel_axes",
            "does not name two axes",
            value=value,
            fix="write their numbers from 0, such as 0,1",
        )
    return pair


def whole_pair(value: Any) -> tuple[int, int] | None:
    """Two whole numbers of "3,4", "3x4" or (3, 4); None where there are not two."""
    parts = value.replace("x", ",").split(",") if isinstance(value, str) else value
    try:
        numbers = [int(part) for part in parts]
        exact = isinstance(value, str) or all(a == b for a, b in zip(numbers, parts, strict=True))
    except (TypeError, ValueError):
        return None
    return (numbers[0], numbers[1]) if len(numbers) == 2 and exact else None


def size_in_words(shape: tuple[int, ...]) -> str:
    """The shape of an array for a message."""
    return " × ".join(str(length) for length in shape) or "a single number"
