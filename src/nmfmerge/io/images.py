"""Folders of images and TIFF stacks: pixels × images, in grey."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.build import build
from nmfmerge.io.errors import FormatError, library, one_line

_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".pgm", ".ppm", ".webp")
_GREY = {"L", "I", "F", "I;16", "I;16B", "I;16L"}
_LUMA = np.array([0.299, 0.587, 0.114])  # ITU-R 601-2, as Pillow's


def read_image_folder(path: Path) -> Dataset:
    """Read the images of a folder in the order of their names, 2 before 10."""
    files = sorted((f for f in path.iterdir() if _is_image(f)), key=_natural)
    if not files:
        raise FormatError(
            f"{path} is a folder without images ({', '.join(_SUFFIXES)}): name a folder that has "
            "them, or a data file"
        )
    library("PIL", "a folder of images", "pillow", "images")
    images = [_read_image(file) for file in files]
    shape = images[0].shape
    for file, image in zip(files, images, strict=True):
        if image.shape != shape:
            raise FormatError(
                f"{file} has {_pixels(image.shape)} pixels where {files[0].name} has "
                f"{_pixels(shape)}: crop or scale the images to one size"
            )
    names = Axis("image", np.array([file.name for file in files]))
    return _frames(path, np.stack(images), names)


def read_tiff(path: Path) -> Dataset:
    """Read a TIFF or OME-TIFF stack; its frames become columns."""
    tifffile = library("tifffile", path.suffix, "tifffile", "images")
    with _logged("tifffile") as faults, tifffile.TiffFile(path) as file:
        series = file.series[0]
        if len(file.series) > 1:
            raise FormatError(
                f"{path} holds {len(file.series)} series of images of different kinds: save one of "
                "them in a file of its own"
            )
        _check_complete(path, file)
        stack, axes = series.asarray(), series.axes
    if faults:
        raise FormatError(f"{path} is damaged or cut short ({faults[0]}): copy or save it again")
    if "Y" not in axes or "X" not in axes:
        raise FormatError(f"{path} has axes {axes} without Y and X: save it as a stack of images")
    stack = _one_axis_of_frames(path, *_to_grey(path, stack, axes))
    return _frames(path, stack, Axis("frame", np.arange(len(stack))))


def _frames(path: Path, stack: np.ndarray, columns: Axis) -> Dataset:
    """Dataset of a stack (frames, height, width)."""
    height, width = stack.shape[1:]
    X = stack.reshape(len(stack), -1).T
    pixels = Axis("pixel", np.arange(X.shape[0]))
    return build(path, X, pixels, columns, image_shape=(height, width))


def _read_image(file: Path) -> np.ndarray:
    from PIL import Image

    try:
        with Image.open(file) as image:
            return np.array(image if image.mode in _GREY else image.convert("L"))
    except Exception as error:
        raise FormatError(
            f"{file} cannot be read as an image ({one_line(error)}): replace or remove it"
        ) from error


def _to_grey(path: Path, stack: np.ndarray, axes: str) -> tuple[np.ndarray, str]:
    """Colours of a pixel (axis S) as one grey value."""
    if "S" not in axes:
        return stack, axes
    colours = np.moveaxis(stack, axes.index("S"), -1)
    if colours.shape[-1] not in (3, 4):
        raise FormatError(f"{path} has {colours.shape[-1]} samples a pixel: save it in grey")
    return colours[..., :3] @ _LUMA, axes.replace("S", "")


def _one_axis_of_frames(path: Path, stack: np.ndarray, axes: str) -> np.ndarray:
    """Stack (frames, height, width), where one axis at most counts frames."""
    stack = np.moveaxis(stack, (axes.index("Y"), axes.index("X")), (-2, -1))
    if sum(length > 1 for length in stack.shape[:-2]) > 1:
        others = axes.replace("Y", "").replace("X", "")
        sizes = ", ".join(f"{a}={k}" for a, k in zip(others, stack.shape, strict=False))
        raise FormatError(
            f"{path} has more than one axis of frames ({sizes}): save one channel or one depth in "
            "a file of its own"
        )
    return stack.reshape(-1, *stack.shape[-2:])


def _check_complete(path: Path, file: Any) -> None:
    """Pixels that a TIFF places beyond its end would be read as zeros."""
    size = path.stat().st_size
    for page in file.pages:
        ends = zip(page.dataoffsets, page.databytecounts, strict=False)
        if any(offset + count > size for offset, count in ends):
            raise FormatError(f"{path} is cut short: copy or save it again")


@contextmanager
def _logged(name: str) -> Iterator[list[str]]:
    """What a library logs instead of raising: its errors, and that it filled in zeros."""
    faults: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            message = record.getMessage()
            if record.levelno >= logging.ERROR or "zeroed" in message:
                faults.append(one_line(ValueError(message)))

    logger, listener = logging.getLogger(name), Listener(logging.WARNING)
    propagate = logger.propagate
    logger.addHandler(listener)
    logger.propagate = False
    try:
        yield faults
    finally:
        logger.removeHandler(listener)
        logger.propagate = propagate


def _is_image(file: Path) -> bool:
    return file.is_file() and file.suffix.lower() in _SUFFIXES and not file.name.startswith(".")


def _natural(file: Path) -> list[Any]:
    """Sort key in which numbers count as numbers."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", file.name)]


def _pixels(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
