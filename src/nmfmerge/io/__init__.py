"""Data files of many fields in, as a `Dataset`; optional libraries are imported when used.

One file per family of formats, listed in `registry`; `options` has the options of all readers, and
`memory` keeps a file from filling the memory.
"""

from nmfmerge.io.errors import FormatError, MissingLibrary, ReadingWarning
from nmfmerge.io.inspect import describe
from nmfmerge.io.lazy import open_lazily
from nmfmerge.io.registry import FORMATS, read

__all__ = [
    "FORMATS",
    "FormatError",
    "MissingLibrary",
    "ReadingWarning",
    "describe",
    "open_lazily",
    "read",
]
