"""Folders of images and TIFF stacks: pixels × images, one value a pixel."""

import logging
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import Given, Message
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.build import build
from nmfmerge.io.channels import one_colour
from nmfmerge.io.errors import FormatError, library, one_line
from nmfmerge.io.memory import Memory

_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".pgm", ".ppm", ".webp")
_GREY = {"L", "I", "F", "I;16", "I;16B", "I;16L"}
_FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "GIF", "PPM", "WEBP")
_PIXEL = 16  # bytes for a pixel while it is read
_COPIES = 2  # of an image: by itself, and in the stack


def read_image_folder(path: Path, memory: Memory, channel: Any = None) -> Dataset:
    """Read the images of a folder in the order of their names, 2 before 10; pages are images."""
    files = sorted((f for f in path.iterdir() if _is_image(f)), key=_natural)
    if not files:
        raise FormatError(
            f"{path} is a folder without images ({', '.join(_SUFFIXES)}): name a folder that has "
            "them, or a data file"
        )
    library("PIL", "a folder of images", "pillow", "images")
    images: dict[str, np.ndarray] = {}
    size = 0
    for file in files:
        for name, image in _pages(file, memory, size):
            _check_alike(file, image, next(iter(images.items()), (name, image)))
            images[name] = image
            size += _COPIES * image.nbytes
    stack = _stack(list(images.values()))
    if stack.ndim == 4:
        stack = _one_value(path, stack, channel)
    elif channel not in (None, "grey", 1, "1"):
        raise _no_channels(path, channel)
    return _frames(path, stack, Axis("image", np.array(list(images))), memory)


def read_tiff(path: Path, memory: Memory, channel: Any = None) -> Dataset:
    """Read a TIFF or OME-TIFF stack; its frames become columns."""
    tifffile = library("tifffile", path.suffix, "tifffile", "images")
    with logged("tifffile") as faults, tifffile.TiffFile(path) as file:
        series = file.series[0]
        if len(file.series) > 1:
            raise FormatError(
                f"{path} holds {len(file.series)} series of images of different kinds: save one of "
                "them in a file of its own"
            )
        _check_complete(path, file)
        memory.array(series.shape, 2 * series.dtype.itemsize)
        stack, axes = series.asarray(), series.axes
    if faults:
        raise FormatError(f"{path} is damaged or cut short ({faults[0]}): copy or save it again")
    if "Y" not in axes or "X" not in axes:
        raise FormatError(f"{path} has axes {axes} without Y and X: save it as a stack of images")
    if "S" in axes:
        memory.array(stack.shape, 16)  # colours as floats
        stack = _one_value(path, np.moveaxis(stack, axes.index("S"), -1), channel)
        axes = axes.replace("S", "")
    elif "C" in axes and channel is not None:
        stack = one_colour(path, np.moveaxis(stack, axes.index("C"), -1), channel)
        axes = axes.replace("C", "")
    elif channel not in (None, "grey", 1, "1"):
        raise _no_channels(path, channel)
    stack = _one_axis_of_frames(path, stack, axes)
    return _frames(path, stack, Axis("frame", np.arange(len(stack))), memory)


def _frames(path: Path, stack: np.ndarray, columns: Axis, memory: Memory) -> Dataset:
    """Dataset of a stack (frames, height, width)."""
    height, width = stack.shape[1:]
    memory.needs(_COPIES * stack.nbytes + 8 * height * width)  # with the numbers of the pixels
    X = stack.reshape(len(stack), -1).T
    pixels = Axis("pixel", np.arange(X.shape[0]))
    return build(path, X, pixels, columns, memory=memory, image_shape=(height, width))


def _one_value(path: Path, colours: np.ndarray, channel: Any) -> np.ndarray:
    """A colour or grey; where the colours are all alike, nothing is lost."""
    alike = channel is None and colours.shape[-1] in (3, 4)
    if alike and (colours[..., :3] == colours[..., :1]).all():
        return colours[..., 0]
    return one_colour(path, colours, channel)


def _pages(file: Path, memory: Memory, held: int) -> Iterator[tuple[str, np.ndarray]]:
    """The name and the pixels of each page of an image; colours are a third axis.

    ``held`` is the memory in bytes that the images before it take.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        memory.needs(held + file.stat().st_size)
        raw = BytesIO(file.read_bytes())  # from a file, Pillow reads all that it declares
        with _any_size(Image), Image.open(raw, formats=_FORMATS) as image:
            # an MPO is a photograph with previews, not a series
            n = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)
            for k in range(n):
                memory.needs(held + _PIXEL * math.prod(image.size))  # to find the page
                image.seek(k)
                memory.needs(held + _PIXEL * math.prod(image.size))
                pixels = np.array(image if image.mode in _GREY else _plain(image))
                yield file.name if n == 1 else f"{file.name}[{k + 1}]", pixels
                held += _COPIES * pixels.nbytes
    except FormatError:
        raise
    except Exception as error:
        unknown = isinstance(error, UnidentifiedImageError)  # which shows the open file
        why = "of no known format" if unknown else one_line(error)
        message = f"{file} cannot be read as an image ({why}): replace or remove it"
        raise FormatError(message) from error


def _plain(image: Any) -> Any:
    """Grey for black and white and for transparent greys; red, green and blue for all else."""
    if image.mode in ("1", "LA", "La"):
        return image.convert("L")
    return image.convert("RGB")


@contextmanager
def _any_size(Image: Any) -> Iterator[None]:
    """Switch off Pillow's limit on pixels: ours is set by ``max_memory``."""
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def _check_alike(file: Path, image: np.ndarray, first: tuple[str, np.ndarray]) -> None:
    name, pixels = first
    if image.shape[:2] != pixels.shape[:2]:
        raise FormatError(
            f"{file} has {_pixels(image.shape[:2])} pixels where {name} has "
            f"{_pixels(pixels.shape[:2])}: crop or scale the images to one size"
        )
    if image.dtype != pixels.dtype:
        raise FormatError(
            f"{file} has values of type {image.dtype} where {name} has {pixels.dtype}: save all "
            "images alike"
        )


def _stack(images: list[np.ndarray]) -> np.ndarray:
    """One array; where some images have colours, the grey ones have three alike."""
    if any(image.ndim == 3 for image in images):
        images = [np.dstack([one] * 3) if one.ndim == 2 else one for one in images]
    return np.stack(images)


def _no_channels(path: Path, channel: Any) -> FormatError:
    return FormatError(
        Message(
            "{path} has grey images: leave out {given}",
            path=path,
            given=Given("channel", channel),
        )
    )


def _one_axis_of_frames(path: Path, stack: np.ndarray, axes: str) -> np.ndarray:
    """Stack (frames, height, width), where one axis at most counts frames."""
    stack = np.moveaxis(stack, (axes.index("Y"), axes.index("X")), (-2, -1))
    if sum(length > 1 for length in stack.shape[:-2]) > 1:
        others = axes.replace("Y", "").replace("X", "")
        sizes = ", ".join(f"{a}={k}" for a, k in zip(others, stack.shape, strict=False))
        raise FormatError(
            Message(
                "{path} has more than one axis of frames ({sizes}): choose one of its channels (C) "
                "with {first}, or save one depth in a file of its own",
                path=path,
                sizes=sizes,
                first=Given("channel", 1),
            )
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
def logged(name: str) -> Iterator[list[str]]:
    """Collect problems that a library logs: errors, and values filled with zeros."""
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
