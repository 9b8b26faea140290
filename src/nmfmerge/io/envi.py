"""ENVI images, a header with its data file beside it: pixels × bands, with their wavelengths."""

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.build import build
from nmfmerge.io.errors import FormatError, ReadingWarning, library
from nmfmerge.io.images import logged
from nmfmerge.io.memory import Memory

_UNITS = {"nanometers": "nm", "nm": "nm", "micrometers": "µm", "microns": "µm", "um": "µm",
          "µm": "µm"}  # fmt: skip
_INTERLEAVES = ("bsq", "bil", "bip")  # band by band, line by line, pixel by pixel
_HEADER = 10**7  # bytes; a header has some numbers for each band


def read_envi(path: Path, memory: Memory) -> Dataset:
    """Read an ENVI image by its header."""
    envi = library("spectral.io.envi", ".hdr", "spectral", "hyperspectral")
    if path.stat().st_size > _HEADER:
        raise FormatError(f"{path} is too long for an ENVI header: check its suffix")
    header = envi.read_envi_header(str(path.absolute()))
    if header.get("file type") == "ENVI Spectral Library":
        raise FormatError(f"{path} is a library of spectra, not an image: name an image")
    shape = [int(header[name]) for name in ("lines", "samples", "bands")]
    if min(shape) < 1:
        raise FormatError(f"{path} declares an empty image: write it again")
    _check_interleave(path, header.get("interleave"))
    size = np.dtype(envi.gen_params(header).dtype).itemsize
    memory.array(shape, 2 * size + 8)  # as stored, as a matrix, and scaled
    try:
        with logged("spectral"):  # which logs what it cannot parse
            image = envi.open(str(path.absolute()))
    except envi.EnviDataFileNotFoundError as error:
        raise FormatError(
            f"{path} has no data file beside it: copy the file of the same name that ends in "
            ".img, .dat, .raw or nothing"
        ) from error
    cube = image.open_memmap(interleave="bip")  # lines × samples × bands
    height, width, n_bands = cube.shape
    X = np.array(cube).reshape(height * width, n_bands)
    X = X.astype(X.dtype.newbyteorder("="), copy=False)
    X = _without_ignored(path, X, header)
    if image.scale_factor != 1:
        X = X / image.scale_factor
    return build(
        path,
        X,
        Axis("pixel", np.arange(math.prod((height, width)))),
        _bands(header, n_bands),
        memory=memory,
        image_shape=(height, width),
    )


def _check_interleave(path: Path, interleave: Any) -> None:
    """Refuse orders of the values that are not known: spectral reads them as bsq."""
    if interleave not in {order for known in _INTERLEAVES for order in (known, known.upper())}:
        raise FormatError(
            f"{path} has interleave = {interleave}; expected {', '.join(_INTERLEAVES)}: correct "
            "the header to the order of the values in the data file"
        )


def _bands(header: Mapping[str, Any], n: int) -> Axis:
    """Wavelengths with their unit, or the names of the bands, or their numbers."""
    try:
        wavelengths = np.array([float(number) for number in header.get("wavelength", [])])
    except ValueError:
        wavelengths = np.empty(0)
    if len(wavelengths) == n and np.isfinite(wavelengths).all():
        unit = str(header.get("wavelength units", "")).strip()
        return Axis("wavelength", wavelengths, _UNITS.get(unit.lower(), ""))
    names = header.get("band names", [])
    return Axis("band", np.array(names) if len(names) == n else np.arange(1, n + 1))


def _without_ignored(path: Path, X: np.ndarray, header: Mapping[str, Any]) -> np.ndarray:
    """Values that stand for no data become zero."""
    if "data ignore value" not in header:
        return X
    value = float(header["data ignore value"])
    ignored = np.equal(X, value)
    if value == 0 or not ignored.any():
        return X
    warnings.warn(
        f"{path} marks {int(ignored.sum())} entries as no data, which became zero",
        ReadingWarning,
        stacklevel=2,
    )
    return np.where(ignored, X.dtype.type(0), X)
