"""A file goes in, a Dataset comes out: the formats by suffix, and `read`."""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.datasets.base import Dataset
from nmfmerge.io.adjust import ADJUSTMENTS, adjust
from nmfmerge.io.arrays import read_npy, read_npz
from nmfmerge.io.audio import read_sound, read_wave
from nmfmerge.io.envi import read_envi
from nmfmerge.io.errors import FormatError, ReadingWarning, one_line
from nmfmerge.io.excel import read_excel
from nmfmerge.io.ids import ids_beside
from nmfmerge.io.images import read_image_folder, read_tiff
from nmfmerge.io.lcms import read_andi, read_mzml
from nmfmerge.io.market import read_mtx
from nmfmerge.io.matlab import read_mat
from nmfmerge.io.memory import Memory, memory_for
from nmfmerge.io.names import names_beside
from nmfmerge.io.options import check_options
from nmfmerge.io.parquet import read_parquet
from nmfmerge.io.single_cell import read_h5ad
from nmfmerge.io.tenx import is_10x, read_10x, read_h5
from nmfmerge.io.text import read_text
from nmfmerge.io.zarrs import is_zarr, read_zarr

_Read = TypeVar("_Read")
_ARRAY = ("variable", "pixel_axes")
_IMAGE = ("channel",)
_SOUND = ("window", "hop", "channel")
_RUN = ("mz_bin", "mz_min", "mz_max", "time_bin", "time_min", "time_max")


@dataclass(frozen=True)
class Format:
    """One format of files.

    Attributes
    ----------
    name : str
        Short name, its key in `FORMATS`.
    suffixes : tuple of str
        Endings of file names, in lower case; none for a folder.
    description : str
        One line.
    reader : callable
        ``reader(path, memory, **options)`` returns a `Dataset` and takes no more than ``memory``.
    own_options : tuple of str
        Names of the options that the reader takes.
    extra : str or None
        Extra of this package that the format needs: ``pip install "nmfmerge[extra]"``.
    names_beside : bool
        Whether names of rows and columns are looked for in files beside it.
    """

    name: str
    suffixes: tuple[str, ...]
    description: str
    reader: Callable[..., Dataset]
    own_options: tuple[str, ...] = ()
    extra: str | None = None
    names_beside: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """Names of all options that `read` takes for this format."""
        return (*self.own_options, *ADJUSTMENTS, "transpose", "max_memory")


FORMATS: Mapping[str, Format] = {
    fmt.name: fmt
    for fmt in (
        Format("npy", (".npy",), "NumPy array", read_npy, ("pixel_axes",), names_beside=True),
        Format(
            "npz",
            (".npz",),
            "NumPy arrays or SciPy sparse matrix",
            read_npz,
            _ARRAY,
            names_beside=True,
        ),
        Format(
            "text",
            (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"),
            "table of numbers with or without names",
            read_text,
            ("header", "triplets", "decimal"),
        ),
        Format("parquet", (".parquet",), "Parquet table", read_parquet, extra="tables"),
        Format(
            "excel",
            (".xlsx", ".xlsm"),
            "sheet of an Excel workbook",
            read_excel,
            ("header", "variable", "decimal"),
            "tables",
        ),
        Format(
            "mtx",
            (".mtx", ".mtx.gz"),
            "Matrix Market, sparse or dense",
            read_mtx,
            names_beside=True,
        ),
        Format(
            "mat",
            (".mat",),
            "MATLAB; version 7.3 needs [hdf5]",
            read_mat,
            _ARRAY,
            names_beside=True,
        ),
        Format(
            "hdf5",
            (".h5", ".hdf5"),
            "HDF5 file, also that of 10x Genomics",
            read_h5,
            (*_ARRAY, "feature_type"),
            "hdf5",
        ),
        Format("zarr", (".zarr",), "Zarr store", read_zarr, _ARRAY, "hdf5"),
        Format("10x", (), "folder of 10x Genomics, cells × genes", read_10x, ("feature_type",)),
        Format("envi", (".hdr",), "ENVI image, pixels × bands", read_envi, (), "hyperspectral"),
        Format("h5ad", (".h5ad",), "AnnData, cells × genes", read_h5ad, ("layer",), "single-cell"),
        Format("wav", (".wav",), "sound, as a spectrogram", read_wave, _SOUND),
        Format(
            "sound",
            (".flac", ".ogg"),
            "compressed sound, as a spectrogram",
            read_sound,
            _SOUND,
            "audio",
        ),
        Format(
            "mzml",
            (".mzml", ".mzml.gz"),
            "LC-MS run, binned; only MS-Numpress needs [ms]",
            read_mzml,
            (*_RUN, "ms_level"),
        ),
        Format("netcdf", (".cdf", ".nc"), "LC-MS run in netCDF (ANDI), binned", read_andi, _RUN),
        Format(
            "tiff", (".tif", ".tiff"), "TIFF or OME-TIFF stack", read_tiff, ("channel",), "images"
        ),
        Format("images", (), "folder of images of one size", read_image_folder, _IMAGE, "images"),
    )
}


def read(path: str | os.PathLike[str], **options: Any) -> Dataset:
    """Read a data file into a `Dataset`; its suffix says which format it has.

    Parameters
    ----------
    path : str or path
        A file, a Zarr store, a folder of 10x Genomics or a folder of images.
    **options
        The options of the format: ``FORMATS[name].options``. All formats accept ``transpose=True``,
        which swaps rows and columns. These refer to the returned X: ``rows`` and ``columns``, the
        kinds of its sides, such as "gene"; ``row_names`` and ``column_names``, files with one name
        per line, or lists; ``image_shape``, height and width, if one side is pixels;
        ``wavelengths``, a file or numbers, in ``wavelength_unit``; ``drop_zero_rows`` and
        ``drop_zero_columns``, which drop all-zero rows and columns. ``max_memory``, such as
        ``"8GB"``, rejects a file that needs more before the memory is allocated; the default is
        half of the machine's memory, and 1 GB for a file that takes more than 1000 times its size
        on disk. None is the same as omitting an option.

    Returns
    -------
    Dataset
        X, dense or CSR, with its axes as far as the file has them; n_components is None.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FormatError
        The file cannot be read: a ValueError of one sentence that says what to do.
    ValueError
        The format does not take an option, or not with this value.

    Warns
    -----
    ReadingWarning
        The file holds more than the matrix shows, such as colours that became grey.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} was not found: check its name and folder")
    fmt = find_format(path)
    check_options(options, fmt.options, fmt.name)
    if path.is_file() and path.stat().st_size == 0:
        raise FormatError(f"{path} is an empty file: write or copy it again")
    given = {name: value for name, value in options.items() if value is not None}
    adjustments = {name: given.pop(name) for name in ADJUSTMENTS if name in given}
    transposed = given.pop("transpose", False)
    memory = memory_for(path, given.pop("max_memory", None))
    data = safely(fmt, path, lambda: fmt.reader(path, memory, **given))
    data = replace(data, name=stem(fmt, path))
    has_ids = given.get("triplets", False)
    if fmt.names_beside:
        data = named(path, data, memory, adjustments)
    data = transpose(data) if transposed else data
    if has_ids:
        data = _named_by_id(path, data, memory, adjustments)
    return adjust(data, adjustments, memory, has_ids=has_ids)


def find_format(path: Path) -> Format:
    """The format of a path, by its suffix, or by what a folder holds."""
    if path.is_dir():
        return FORMATS["zarr" if is_zarr(path) else "10x" if is_10x(path) else "images"]
    for fmt in FORMATS.values():
        if path.name.lower().endswith(fmt.suffixes):
            return fmt
    header = next((h for h in (path.with_suffix(".hdr"), Path(f"{path}.hdr")) if h.is_file()), None)
    if header is not None:
        raise FormatError(f"{path} has its header in {header}: name that file, and both are read")
    known = ", ".join(suffix for fmt in FORMATS.values() for suffix in fmt.suffixes)
    raise FormatError(
        f"{path} has an unknown suffix: save it in one of the formats {known}, or name a "
        "folder of images"
    )


def safely(fmt: Format, path: Path, reader: Callable[[], _Read]) -> _Read:
    """Run a reader without the warnings of its libraries; pass on each `ReadingWarning`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = _run(fmt, path, reader)
    for warning in caught:
        if issubclass(warning.category, ReadingWarning):
            warnings.warn(warning.message, stacklevel=3)
    return data


def _run(fmt: Format, path: Path, reader: Callable[[], _Read]) -> _Read:
    """Run a reader; what its libraries raise becomes one sentence."""
    try:
        return reader()
    except (FormatError, ArgumentError, PermissionError):
        raise
    except MemoryError as error:
        raise FormatError(
            f"{path} asks for more memory than there is: check that it is not damaged, or read less"
        ) from error
    except Exception as error:
        raise FormatError(
            f"{path} cannot be read as {fmt.name} ({one_line(error)}): check that the file is "
            "complete and that its suffix says what it is"
        ) from error


def stem(fmt: Format, path: Path) -> str:
    """The name of a file without its suffix."""
    endings = [suffix for suffix in fmt.suffixes if path.name.lower().endswith(suffix)]
    return path.name[: -len(max(endings, key=len))] if endings else path.name


def named(path: Path, data: Dataset, memory: Memory, given: Mapping[str, Any]) -> Dataset:
    """Names from files beside the data, unless the user gives all."""
    names = [given[name] for name in ("row_names", "column_names") if name in given]
    if len(names) == 2:
        return data
    return names_beside(path, data, memory, _files(names))


def _named_by_id(path: Path, data: Dataset, memory: Memory, given: Mapping[str, Any]) -> Dataset:
    """Names for ids from files beside the data, on the sides that the user does not name."""
    options = {"rows": "row_names", "columns": "column_names"}
    files = _files([given[option] for option in options.values() if option in given])
    sides = [side for side, option in options.items() if option not in given]
    return ids_beside(path, data, memory, files, sides)


def _files(names: list[Any]) -> set[Path]:
    return {Path(name).resolve() for name in names if isinstance(name, str | os.PathLike)}


def transpose(data: Dataset) -> Dataset:
    """Swap rows and columns."""
    X = data.X.T.tocsr() if hasattr(data.X, "tocsr") else data.X.T
    return replace(data, X=X, rows=data.columns, columns=data.rows)
