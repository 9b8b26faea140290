"""Types of mutations: SBS96, DBS78, ID83 and CNV48, recognised by their names in any spelling.

Input: names of rows or columns. Output: the classification they belong to, with its types in the
usual order and their groups, and the place of each name in it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

_BASES = "ACGT"
_PAIR = str.maketrans("ACGT", "TGCA")
_SUBSTITUTIONS = ("C>A", "C>G", "C>T", "T>A", "T>C", "T>G")
_DOUBLETS = ("AC", "AT", "CC", "CG", "CT", "GC", "TA", "TC", "TG", "TT")
_OWN_REVERSE = {  # of doublets that are their own reverse complement, one of two equal changes
    "AT": ("CA", "CC", "CG", "GA", "GC", "TA"),
    "CG": ("AT", "GC", "GT", "TA", "TC", "TT"),
    "GC": ("AA", "AG", "AT", "CA", "CG", "TA"),
    "TA": ("AT", "CG", "CT", "GC", "GG", "GT"),
}
_LENGTHS = ("0-100kb", "100kb-1Mb", "1Mb-10Mb", "10Mb-40Mb", ">40Mb")
_LEAST_SHARE = 0.5  # of names that a classification must know to be the one that is meant


@dataclass(frozen=True, eq=False)
class MutationTypes:
    """A classification of mutations.

    Attributes
    ----------
    name : str
        "SBS96", "DBS78", "ID83" or "CNV48".
    types : tuple of str
        The types in the usual order, spelled as in the COSMIC catalogue.
    groups : tuple of str
        The group of each type, which figures give one colour.
    read : callable
        The usual spelling of a name, or None if it is no name of a type.
    """

    name: str
    types: tuple[str, ...] = field(repr=False)
    groups: tuple[str, ...] = field(repr=False)
    read: Callable[[str], str | None] = field(repr=False)

    def places(self, names: Iterable[object]) -> list[int | None]:
        """The place of each name among the types; None for one that is not among them."""
        index = {name: i for i, name in enumerate(self.types)}
        spelled = (self.read("".join(str(name).split())) for name in names)
        return [None if name is None else index.get(name) for name in spelled]


def recognised(names: Sequence[object]) -> MutationTypes | None:
    """The classification that most of the names belong to; None if they belong to none."""
    least = _LEAST_SHARE * len(names)
    counts = {
        kind.name: sum(place is not None for place in kind.places(names)) for kind in KINDS.values()
    }
    best = max(counts, key=lambda name: counts[name])
    return KINDS[best] if counts[best] > least else None


def places_of(kind: MutationTypes, names: Sequence[object]) -> np.ndarray:
    """The place of each name among the types of a classification.

    Raises
    ------
    ValueError
        If a name is no type, or two are the same type; the message names them.
    """
    places = kind.places(names)
    if unknown := [str(name) for name, place in zip(names, places, strict=True) if place is None]:
        raise ValueError(
            f"{_listed(unknown)} {'is' if len(unknown) == 1 else 'are'} not among the mutation "
            f"types of {kind.name}, as {kind.types[0]!r} is: leave out what is not a type"
        )
    counted = Counter(places)
    if twice := [
        str(name) for name, place in zip(names, places, strict=True) if counted[place] > 1
    ]:
        raise ValueError(
            f"{_listed(twice)} are mutation types of {kind.name} that occur more than once: add "
            "up the rows of each type first"
        )
    return np.array(places, dtype=np.intp)


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def _reverse(bases: str) -> str:
    """The other strand, read in its direction."""
    return bases.translate(_PAIR)[::-1]


_SBS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?P<a>[ACGT])\[(?P<b>[ACGT])>(?P<to>[ACGT])\](?P<c>[ACGT])",  # A[C>A]A
        r"(?P<a>[ACGT])(?P<b>[ACGT])(?P<c>[ACGT])>(?P=a)(?P<to>[ACGT])(?P=c)",  # ACA>AAA
        r"(?P<a>[ACGT])(?P<b>[ACGT])(?P<c>[ACGT])>(?P<to>[ACGT])",  # ACA>A
        # C>A:ACA
        r"(?P<b>[ACGT])>?(?P<to>[ACGT])[:_.,|]?(?P<a>[ACGT])(?:(?P=b)|[._N-])(?P<c>[ACGT])",
        # ACA:C>A
        r"(?P<a>[ACGT])(?:(?P<b>[ACGT])|[._N-])(?P<c>[ACGT])[:_.,|](?P<d>[ACGT])>?(?P<to>[ACGT])",
    )
]


def _read_sbs(name: str) -> str | None:
    for pattern in _SBS:
        if (found := pattern.fullmatch(name)) is None:
            continue
        part = {key: value.upper() for key, value in found.groupdict().items() if value}
        base = part.get("d", part.get("b", ""))
        if base != part.get("b", base) or base == part["to"]:
            continue
        before, change, after = part["a"], (base, part["to"]), part["c"]
        if base in "AG":
            before, after = _reverse(after), _reverse(before)
            change = (_reverse(base), _reverse(part["to"]))
        return f"{before}[{change[0]}>{change[1]}]{after}"
    return None


_DBS = re.compile(r"(?:DBS_)?([ACGT]{2})[>:_|]([ACGT]{2})", re.IGNORECASE)


def _read_dbs(name: str) -> str | None:
    if (found := _DBS.fullmatch(name)) is None:
        return None
    before, after = (part.upper() for part in found.groups())
    spellings = (f"{before}>{after}", f"{_reverse(before)}>{_reverse(after)}")
    return next((name for name in spellings if name in _DBS_TYPES), None)


_ID = re.compile(r"([1-5])\+?:(Del|Ins):([ACGTRM]):([0-5])\+?", re.IGNORECASE)
_ID_PCAWG = re.compile(r"(DEL|INS)_(C|T|repeats|MH)_([1-5])\+?_([0-5])\+?", re.IGNORECASE)
_WHAT = {"C": "C", "G": "C", "T": "T", "A": "T", "R": "R", "M": "M", "REPEATS": "R", "MH": "M"}


def _read_id(name: str) -> str | None:
    if found := _ID.fullmatch(name):
        size, how, what, count = found.groups()
    elif found := _ID_PCAWG.fullmatch(name):
        how, what, size, count = found.groups()
    else:
        return None
    return f"{size}:{how.capitalize()}:{_WHAT[what.upper()]}:{count}"


def _read_cnv(name: str) -> str | None:
    return _CNV_BY_LETTERS.get(name.casefold())


def _sbs_types() -> dict[str, str]:
    return {
        f"{a}[{change}]{b}": change for change in _SUBSTITUTIONS for a, b in product(_BASES, _BASES)
    }


def _dbs_types() -> dict[str, str]:
    types: dict[str, str] = {}
    for before in _DOUBLETS:
        changes = [
            a + b for a, b in product(_BASES, _BASES) if a != before[0] and b != before[1]
        ]  # fmt: skip
        types |= {
            f"{before}>{after}": f"{before}>NN" for after in _OWN_REVERSE.get(before, changes)
        }
    return types


def _id_types() -> dict[str, str]:
    types = {
        f"1:{how}:{base}:{count}": f"1bp {how.lower()} {base}"
        for how in ("Del", "Ins") for base in "CT" for count in range(6)
    }  # fmt: skip
    types |= {
        f"{size}:{how}:R:{count}": f"{_at_least(size)}bp {how.lower()}, repeats"
        for how in ("Del", "Ins") for size in range(2, 6) for count in range(6)
    }  # fmt: skip
    types |= {
        f"{size}:Del:M:{count}": f"{_at_least(size)}bp del, microhomology"
        for size in range(2, 6) for count in range(1, size + (size == 5))
    }  # fmt: skip
    return types


def _at_least(size: int) -> str:
    return "5+" if size == 5 else str(size)


def _cnv_types() -> dict[str, str]:
    types = {f"0:homdel:{length}": "hom. del." for length in (*_LENGTHS[:2], ">1Mb")}
    for state, copies in (
        ("LOH", ("1", "2", "3-4", "5-8", "9+")),
        ("het", ("2", "3-4", "5-8", "9+")),
    ):
        types |= {f"{n}:{state}:{length}": f"{state} {n}" for n in copies for length in _LENGTHS}
    return types


_DBS_TYPES = frozenset(_dbs_types())
_CNV_BY_LETTERS = {name.casefold(): name for name in _cnv_types()}


def _kind(
    name: str, types: Mapping[str, str], read: Callable[[str], str | None]
) -> MutationTypes:  # fmt: skip
    return MutationTypes(name, tuple(types), tuple(types.values()), read)


KINDS: Mapping[str, MutationTypes] = {
    kind.name: kind
    for kind in (
        _kind("SBS96", _sbs_types(), _read_sbs),
        _kind("DBS78", _dbs_types(), _read_dbs),
        _kind("ID83", _id_types(), _read_id),
        _kind("CNV48", _cnv_types(), _read_cnv),
    )
}
