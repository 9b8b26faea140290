"""The data sets of the experiments: the paper's six, six others, and small generated stand-ins."""

from dataclasses import dataclass
from functools import cache

from nmfmerge import datasets
from reproduce import real


@dataclass(frozen=True)
class DataSet:
    """How an experiment knows a data set: its name in tables, its ranks, and where it comes from."""

    name: str
    title: str
    load: object
    rank: int
    extra: int
    ranks: tuple = ()
    extras: tuple = ()
    large: bool = False
    paper: str | None = None  # the column of the paper's tables


def _lcms(run):
    return lambda: real.load_lcms(run)


_ALL = (
    DataSet("wt15", "LC-MS wt15", _lcms("wt15"), 17, 3, tuple(range(16, 26)), (1, 2, 3, 5, 8), paper="LCMS1"),
    DataSet("ko15", "LC-MS ko15", _lcms("ko15"), 23, 5, tuple(range(16, 26)), (1, 3, 5, 8, 12), paper="LCMS2"),
    DataSet("mhll", "MHLL", real.load_mhll, 3, 1, tuple(range(2, 8)), (1, 2, 3), paper="MHLL"),
    DataSet("pf1", "P&F No.1", real.load_pf1, 13, 3, tuple(range(10, 16)), (1, 2, 3, 5, 8), paper="P&F No.1"),
    DataSet("cbcl", "CBCL", real.load_cbcl, 49, 10, tuple(range(45, 54, 2)), (1, 5, 10, 15), large=True, paper="CBCL"),
    DataSet("orl", "ORL", real.load_orl, 25, 5, tuple(range(21, 30, 2)), (1, 2, 5, 8), large=True, paper="ORL"),
    DataSet("samson", "Samson", real.load_samson, 3, 1),
    DataSet("brca21", "BRCA 21", real.load_brca21, 4, 1),
    DataSet("ca_mouse", "Calcium", real.load_ca_mouse, 10, 2),
    DataSet("swimmer", "Swimmer", real.load_swimmer, 17, 3),
    DataSet("pbmc3k", "PBMC 3k", real.load_pbmc3k, 10, 2, large=True),
    DataSet("tdt2", "TDT2", real.load_tdt2, 20, 4, large=True),
    DataSet("lcms_like", "generated LC-MS", lambda: datasets.lcms_like(40, 60, 6), 6, 1, (5, 6), (1, 2)),
    DataSet("melody", "generated melody", lambda: datasets.melody(33, 40), 3, 1, (2, 3), (1, 2)),
)  # fmt: skip

SETS = {data.name: data for data in _ALL}
PAPER = tuple(data.name for data in _ALL if data.paper)
REAL = tuple(data.name for data in _ALL[:-2])
GENERATED = ("lcms_like", "melody")
GAINING = ("wt15", "ko15", "pf1")  # LC-MS and P&F No.1, where the paper sees the advantage
FACES = ("cbcl", "orl")


@cache
def matrix(name):
    """X of a data set, scaled to a largest entry of 1 unless the paper scales it otherwise."""
    X = SETS[name].load().X
    return X if SETS[name].paper else X / X.max()
