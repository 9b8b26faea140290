"""A kind of export: the data it suits, and the function that writes it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nmfmerge.datasets.base import Dataset
from nmfmerge.results.about import About
from nmfmerge.results.factorization import Factorization


@dataclass(frozen=True, eq=False)
class ExportSource:
    """The input of an export.

    Attributes
    ----------
    result : Factorization
        The factors, as NumPy arrays.
    data : Dataset
        The axes; X may be None.
    file : Path or None
        The file that the data were read from, if it exists.
    about : About
        How the fit was made: settings, versions, options of reading.
    """

    result: Factorization
    data: Dataset
    file: Path | None = None
    about: About = field(default_factory=About)


@dataclass(frozen=True)
class Export:
    """One kind of files.

    Attributes
    ----------
    name : str
        Short name, its key in `EXPORTS`.
    description : str
        One line: the files and what they hold.
    suits : callable
        ``suits(data)`` checks from the axes whether the export applies.
    write : callable
        ``write(folder, source)`` writes the files.
    on_request : bool
        Whether it is written only when requested by name.
    needs : str
        What it is made from, for messages, if it is written on request.
    why_not : callable or None
        ``why_not(data)`` says what these data lack, if there is more to say than ``needs``: after
        "needs", to the end of the sentence; else an empty string.
    """

    name: str
    description: str
    suits: Callable[[Dataset], bool]
    write: Callable[[Path, ExportSource], None]
    on_request: bool = False
    needs: str = ""
    why_not: Callable[[Dataset], str] | None = None
