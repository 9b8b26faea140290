"""Pictures of components as TIFF."""

from pathlib import Path

import numpy as np

from nmfmerge.datasets.base import Dataset
from nmfmerge.export.base import Export, ExportSource
from nmfmerge.fields.images import has_pictures
from nmfmerge.io.errors import library
from nmfmerge.results.factorization import Factorization

_LARGEST = 2**32 - 2**24  # bytes of pixels in a file that ImageJ opens


def maps(result: Factorization, data: Dataset) -> np.ndarray:
    """The pictures of all components.

    Parameters
    ----------
    result : Factorization
        The factors.
    data : Dataset
        What was factorized: one of its sides is "pixel", and ``image_shape`` is known.

    Returns
    -------
    stack : array (r, height, width)
    """
    pixels = _pixels(result.numpy(), data)
    if pixels is None:
        raise ValueError(
            f"data={data.name!r} does not consist of pictures: read it with image_shape= or "
            "pixel_axes="
        )
    return np.stack([data.picture(column) for column in pixels.T])


def _pixels(result: Factorization, data: Dataset) -> np.ndarray | None:
    """The factor along the pixels."""
    if not has_pictures(data):
        return None
    return result.W if data.is_picture(data.rows) else result.H.T


def _write_maps(folder: Path, source: ExportSource) -> None:
    tifffile = library("tifffile", "maps.tif", "tifffile", "images", doing="writing")
    stack = maps(source.result, source.data).astype(np.float32)
    labels = [source.result.label(k) for k in range(len(stack))]
    imagej = stack.nbytes < _LARGEST
    shown = {"min": 0.0, "max": float(stack.max())} if imagej else {}
    tifffile.imwrite(
        folder / "maps.tif",
        stack,
        imagej=imagej,
        bigtiff=not imagej,
        photometric="minisblack",
        metadata={"axes": "ZYX", "Labels": labels} | shown,
    )


EXPORT = Export(
    "maps", "maps.tif: a picture of each component, a stack for ImageJ", has_pictures, _write_maps
)
