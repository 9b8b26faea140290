"""What a kind of export is: which data it suits, and what writes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmfmerge.datasets.base import Dataset
from nmfmerge.result import Factorization


@dataclass(frozen=True, eq=False)
class Source:
    """What an export is made of.

    Attributes
    ----------
    result : Factorization
        The factors, as NumPy arrays.
    data : Dataset
        The axes; X may be None.
    file : Path or None
        The file that the data were read from, if it is there.
    about : mapping
        How the fit was made: settings, versions, options of reading; may be empty.
    """

    result: Factorization
    data: Dataset
    file: Path | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


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
        ``suits(data)`` tells, from the axes, whether there is something to write.
    write : callable
        ``write(folder, source)`` writes the files.
    on_request : bool
        Whether it is written only when it is asked for by name.
    needs : str
        What it is made from, for messages, if it is written on request.
    why_not : callable or None
        ``why_not(data)`` says what these data lack, if there is more to say than ``needs``: after
        "needs", to the end of the sentence; else an empty string.
    """

    name: str
    description: str
    suits: Callable[[Dataset], bool]
    write: Callable[[Path, Source], None]
    on_request: bool = False
    needs: str = ""
    why_not: Callable[[Dataset], str] | None = None
