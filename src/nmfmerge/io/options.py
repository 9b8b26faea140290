"""The options that readers take, each with its type and meaning, and their check."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ArgumentError, Given
from nmfmerge.io.adjust import check_order, check_wavelengths, parse_shape
from nmfmerge.io.channels import check_channel
from nmfmerge.io.cubes import parse_pixel_axes
from nmfmerge.io.memory import parse_size
from nmfmerge.io.names import check_names
from nmfmerge.io.notation import check_decimal


@dataclass(frozen=True)
class Option:
    """The allowed values of one option of `read`; ``above`` excludes the lower bound itself."""

    kind: type
    description: str
    low: float | None = None
    above: bool = False
    check: Callable[[Any], object] | None = None  # raises ValueError at a value that is not right
    metavar: str | None = None  # what stands for the value in the help; "FILE" for a file

    def from_text(self, text: str) -> Any:
        """A value as typed on the command line; paths become absolute."""
        return os.path.abspath(text) if self.metavar == "FILE" else self.kind(text)

    @property
    def expected(self) -> str:
        """A description of the allowed values."""
        if self.check is not None:
            return "a name or a number"
        words = {bool: "True or False", str: "a name", int: "a whole number", float: "a number"}
        bound = "" if self.low is None else f" {'above' if self.above else 'of at least'} "
        return words[self.kind] + bound + ("" if self.low is None else f"{self.low:g}")

    def takes(self, value: Any) -> bool:
        """True if a value has the right type and range."""
        if self.check is not None:
            return not isinstance(value, bool | np.bool_)
        if self.kind in (bool, str):
            return isinstance(value, bool | np.bool_ if self.kind is bool else str)
        if isinstance(value, bool | np.bool_):
            return False
        if not isinstance(value, Integral if self.kind is int else Real):
            return False
        number = float(value)
        if self.low is None or not np.isfinite(number):
            return bool(np.isfinite(number))
        return number > self.low if self.above else number >= self.low


OPTIONS: Mapping[str, Option] = {
    "transpose": Option(bool, "swap rows and columns after reading"),
    "variable": Option(str, "name of the array to read, if the file holds several"),
    "header": Option(bool, "whether the first line of a table has the names of its columns"),
    "triplets": Option(
        bool, "the lines of a table are a row, a column and a value: a sparse matrix"
    ),
    "decimal": Option(
        str,
        "decimal sign of the numbers of a table, . or , (default: what all numbers fit)",
        check=check_decimal,
        metavar="SIGN",
    ),
    "rows": Option(str, "what the rows are, such as gene, word, pixel or band"),
    "columns": Option(str, "what the columns are, such as cell, document, frame or time"),
    "row_names": Option(
        str, "text file with a name for each row, one a line", check=check_names, metavar="FILE"
    ),
    "column_names": Option(
        str, "text file with a name for each column, one a line", check=check_names, metavar="FILE"
    ),
    "drop_zero_rows": Option(bool, "leave out rows that are all zero"),
    "drop_zero_columns": Option(bool, "leave out columns that are all zero"),
    "image_shape": Option(
        str,
        "height and width of a picture where one side is pixels, such as 64,48",
        check=parse_shape,
        metavar="H,W",
    ),
    "image_order": Option(
        str,
        "order of the pixels of --image-shape: C, row by row, or F, column by column (default: C)",
        check=check_order,
        metavar="ORDER",
    ),
    "pixel_axes": Option(
        str,
        "the axes of an array of three dimensions that are height and width of a picture, counted "
        "from 0, such as 0,1; from the last with an equals sign, --pixel-axes=-2,-1",
        check=parse_pixel_axes,
        metavar="I,J",
    ),
    "wavelengths": Option(
        str,
        "text file with the wavelength of each band, one a line",
        check=check_wavelengths,
        metavar="FILE",
    ),
    "wavelength_unit": Option(str, "unit of --wavelengths (default: nm)", metavar="UNIT"),
    "feature_type": Option(
        str,
        "features of 10x data to read, such as 'Antibody Capture', or all (default: Gene "
        "Expression)",
    ),
    "layer": Option(
        str, "name of the layer of an .h5ad file to read instead of X; raw reads its .raw"
    ),
    "window": Option(
        int, "length of a window of the spectrogram in samples of sound (default: 1024)", low=2
    ),
    "hop": Option(
        int,
        "samples of sound from one window of the spectrogram to the next (default: half a window)",
        low=1,
    ),
    "mz_bin": Option(
        float,
        "width of a bin of m/z in Da; bins lie around multiples of it, and each is a row, named by "
        "the mean m/z of its points, weighted by intensity (default: 1)",
        low=0,
        above=True,
    ),
    "mz_min": Option(
        float, "leave out points with an m/z below this, where the first bin then begins"
    ),
    "mz_max": Option(float, "leave out points with an m/z above this"),
    "time_bin": Option(
        float,
        "width of a bin of retention time in seconds; each is a column, named by its centre "
        "(default: each scan is a column)",
        low=0,
        above=True,
    ),
    "time_min": Option(float, "leave out scans before this retention time, in seconds"),
    "time_max": Option(float, "leave out scans after this retention time, in seconds"),
    "ms_level": Option(int, "read the scans of this MS level of an mzML file (default: 1)", low=1),
    "channel": Option(
        str,
        "channel to read: a number from 1, or red, green, blue or grey for images (default: the "
        "average of the channels of sound, and grey for colours)",
        check=check_channel,
    ),
    "max_memory": Option(
        str,
        "refuse a file that needs more memory than this, such as 8GB (default: half of the "
        "machine's memory, but 1GB for a file that needs more than 1000 times its size on disk)",
        check=parse_size,
        metavar="SIZE",
    ),
}


def check_options(options: Mapping[str, Any], known: tuple[str, ...], format_name: str) -> None:
    """Check that a format takes these options with these values; None leaves an option out."""
    for name, value in options.items():
        if name not in known:
            raise ArgumentError(
                name,
                "is not an option of the format {format}, which takes "
                + ", ".join(f"{{{other}}}" for other in known),
                value=value,
                format=repr(format_name),
            )
        if value is None:
            continue
        option = OPTIONS[name]
        if option.check is not None and option.takes(value):
            option.check(value)
        elif not option.takes(value):
            raise ArgumentError(
                name,
                "is not right for the format {format}",
                value=value,
                expected=option.expected,
                format=repr(format_name),
            )
    for low, high in (("mz_min", "mz_max"), ("time_min", "time_max")):
        least, most = options.get(low), options.get(high)
        if least is not None and most is not None and least >= most:
            raise ArgumentError(
                low, "is not below {most}", value=least, fix="swap them", most=Given(high, most)
            )
