"""mzML: the spectra of an LC-MS run, one at a time, however large the file is.

An mzML file says what a value means by accession numbers of the PSI-MS vocabulary. Of its
thousands of terms a binned run needs the few below.

Why not pyteomics: a run of 3,000 scans of 2,000 points (94 MB, packed with zlib) takes it 3.9 s of
CPU time, and this file 2.5 s. It needs lxml, and pynumpress for MS-Numpress, and unpacks arrays to
any size, where a small damaged file can fill the memory. Tests compare both, scan by scan.
"""

import base64
import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, iterparse

import numpy as np

from nmfmerge.io.errors import FormatError
from nmfmerge.io.memory import Memory, Metered
from nmfmerge.io.numpress import decode_linear, decode_pic, decode_slof

_MS_LEVEL = "MS:1000511"
_START_TIME = "MS:1000016"
_MINUTE = "UO:0000031"
_MASSES, _INTENSITIES = "MS:1000514", "MS:1000515"
_TYPES = {"MS:1000519": "<i4", "MS:1000521": "<f4", "MS:1000522": "<i8", "MS:1000523": "<f8"}
_PLAIN, _ZLIB = "MS:1000576", "MS:1000574"
_NUMPRESS = {"MS:1002312": decode_linear, "MS:1002313": decode_pic, "MS:1002314": decode_slof}
_NUMPRESS_ZLIB = {"MS:1002746": decode_linear, "MS:1002747": decode_pic, "MS:1002748": decode_slof}

_PIECES = ("spectrum", "chromatogram", "offset")  # elements that files have by the thousand
_PARSED = 30  # bytes of memory that a byte of XML may become
_UNPACKED = 8  # bytes of memory for a byte of an array, until it is binned

Terms = dict[str, Element]


@dataclass(frozen=True)
class Spectrum:
    """One scan: when it was, and its points."""

    seconds: float
    masses: np.ndarray
    intensities: np.ndarray


def read_spectra(path: Path, ms_level: int, memory: Memory) -> Iterator[Spectrum]:
    """Go through the spectra of one MS level; the file, plain or gzipped, is parsed to its end."""
    opener: Callable = gzip.open if path.name.lower().endswith(".gz") else open
    groups: dict[str, list[Element]] = {}
    above: list[Element] = []
    with opener(path, "rb") as raw:
        file = Metered(raw, memory, _PARSED)
        for event, element in iterparse(file, ("start", "end")):
            if event == "start":
                above.append(element)
                continue
            above.pop()
            name = _name(element)
            if name == "referenceableParamGroup":
                groups[element.attrib["id"]] = list(element)
            elif name in _PIECES:
                if name == "spectrum" and _level(element, groups) == ms_level:
                    yield _spectrum(element, groups, memory)
                (above or [element])[-1].clear()  # otherwise the file would pile up in memory
                file.reset()


def _spectrum(element: Element, groups: dict[str, list[Element]], memory: Memory) -> Spectrum:
    arrays = {_MASSES: np.empty(0), _INTENSITIES: np.empty(0)}
    for array in _all(element, "binaryDataArray"):
        terms = _terms(array, groups)
        for kind in arrays.keys() & terms.keys():
            arrays[kind] = _decode(array, terms, memory)
    masses, intensities = arrays[_MASSES], arrays[_INTENSITIES]
    declared = int(element.get("defaultArrayLength", len(masses)))
    if not len(masses) == len(intensities) == declared:
        raise FormatError(
            f"{memory.path} has {len(masses)} masses and {len(intensities)} intensities in "
            f"spectrum {element.get('id')}, which is said to have {declared} points: export the "
            "run again"
        )
    return Spectrum(_seconds(element, groups), masses, intensities)


def _level(element: Element, groups: dict[str, list[Element]]) -> int | None:
    level = _terms(element, groups).get(_MS_LEVEL)
    return None if level is None else int(level.attrib["value"])


def _seconds(element: Element, groups: dict[str, list[Element]]) -> float:
    """Start of the first scan of a spectrum."""
    scan = next(_all(element, "scan"), None)
    time = None if scan is None else _terms(scan, groups).get(_START_TIME)
    if time is None:
        raise ValueError(f"spectrum {element.get('id')} has no scan start time")
    in_minutes = time.get("unitAccession") == _MINUTE or time.get("unitName") == "minute"
    return float(time.attrib["value"]) * (60.0 if in_minutes else 1.0)


def _decode(array: Element, terms: Terms, memory: Memory) -> np.ndarray:
    """The numbers of a binary array."""
    raw = base64.b64decode("".join(binary.text or "" for binary in _all(array, "binary")))
    if not raw:
        return np.empty(0)
    if terms.keys() & {_ZLIB, *_NUMPRESS_ZLIB}:
        raw = _unzip(raw, memory)
    for term, decode in (_NUMPRESS | _NUMPRESS_ZLIB).items():
        if term in terms:
            return decode(raw)
    types = [dtype for term, dtype in _TYPES.items() if term in terms]
    if not types or not terms.keys() & {_PLAIN, _ZLIB}:
        names = ", ".join(repr(term.get("name")) for term in terms.values())
        raise ValueError(f"{names}: export arrays of floats, plain or with zlib")
    return np.frombuffer(raw, types[0]).astype(np.float64)


def _unzip(packed: bytes, memory: Memory) -> bytes:
    unzip = zlib.decompressobj()
    raw = unzip.decompress(packed, max(1, memory.limit // _UNPACKED))
    if unzip.unconsumed_tail:
        raise memory.unpacks_beyond()
    if not unzip.eof:
        raise ValueError("an array packed with zlib is cut short")
    return raw


def _terms(element: Element, groups: dict[str, list[Element]]) -> Terms:
    """The terms that an element has itself, by accession, and by reference to a group."""
    found = {}
    for child in element:
        if _name(child) == "cvParam":
            found[child.attrib["accession"]] = child
        elif _name(child) == "referenceableParamGroupRef":
            found |= {term.get("accession", ""): term for term in groups[child.attrib["ref"]]}
    return found


def _all(element: Element, name: str) -> Iterator[Element]:
    return (inner for inner in element.iter() if _name(inner) == name)


def _name(element: Element) -> str:
    """Tag without its namespace."""
    return element.tag.rpartition("}")[2]
