"""Every setting of a fit, declared once: its functions, allowed values, option and label.

The functions, the estimator, the command line, checkpoints and the report take names, defaults,
checks, options and labels from here, or a test compares them (`tests/test_settings.py`).

To add a setting:

1. write its entry into the list below, at the place that it has in the signatures;
2. add it to the signatures in ``of``, with the same default, and to their docstrings (in the
   estimator also ``self.name = name``);
3. use it: ``given["name"]`` holds the checked value in `nmfmerge.api`.

The entry alone gives the check and its message, the option of `fit` and `path`, the label in
records and reports, and whether a checkpoint with another value is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nmfmerge.arguments.values import (
    Flag,
    Function,
    LongWord,
    NewFile,
    Number,
    NumberOr,
    Ranks,
    Seed,
    Text,
    Threads,
    Value,
    Whole,
    Word,
    WordOr,
)

REQUIRED: Any = object()  # the default of an argument that has none


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes
    ----------
    name : str
        The argument.
    takes : Value
        The allowed values; None is allowed, too, where it is a default.
    of : mapping
        The functions that have this argument, with their defaults.
    doc : str
        One line of description; also the help of its option.
    flags : tuple of str
        Its option on the command line, the long form last; empty if there is none.
    default_doc : str
        The default in words, where the value alone is not clear.
    label : str
        Its label in a report.
    decides : bool
        Whether the result depends on it: then a checkpoint with another value is refused.
    """

    name: str
    takes: Value
    of: Mapping[str, Any]
    doc: str
    flags: tuple[str, ...] = ()
    default_doc: str = ""
    label: str = ""
    decides: bool = True

    def check(self, value: Any) -> Any:
        """The checked value; raise `ArgumentError` or `ArgumentTypeError` if it is wrong."""
        if value is None and None in self.of.values():
            return None
        return self.takes.check(self.name, value)


def _fits(default: Any, **others: Any) -> dict[str, Any]:
    """The same default for all functions that fit one rank, and those of other functions."""
    return {"nmf": default, "nmf_merge": default, "NMFMerge": default} | others


def _merging(default: Any) -> dict[str, Any]:
    return {"nmf_merge": default, "NMFMerge": default}


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            "n_components",
            Whole(1),
            _fits(REQUIRED, NMFMerge=2),
            "number of components, or auto: fit all ranks first and choose one from the data",
            ("-r", "--rank"),
            label="Components",
        ),
        Setting(
            "n_max",
            Whole(1),
            {"rank_path": REQUIRED},
            "highest rank",
            ("--max",),
            label="Highest rank",
        ),
        Setting(
            "n_min", Whole(1), {"rank_path": 1}, "lowest rank", ("--min",), label="Lowest rank"
        ),
        Setting(
            "max_signatures",
            Whole(1),
            {"signatures": 15},
            "highest number of signatures to try",
            ("--max",),
            label="Highest number of signatures",
        ),
        Setting(
            "min_signatures",
            Whole(1),
            {"signatures": 1},
            "lowest number of signatures to try",
            ("--min",),
            label="Lowest number of signatures",
        ),
        Setting(
            "n_signatures",
            Whole(1),
            {"signatures": None},
            "take this number of signatures",
            ("-r", "--rank"),
            "chosen from the fits",
            "Signatures",
        ),
        Setting(
            "ranks",
            Ranks(),
            {"consensus": REQUIRED, "programs": tuple(range(5, 14))},
            "ranks to fit, as 5-13 or 5,8,13",
            ("--ranks",),
            "5-13",
            "Ranks",
        ),
        Setting(
            "n_fits",
            Whole(2),
            {"consensus": 100, "programs": 100, "signatures": 100},
            "number of fits at each rank",
            ("--fits",),
            label="Fits at each rank",
        ),
        Setting(
            "resample",
            Word(("poisson", "rows", "columns")),
            {"consensus": None},
            "draw the data of each fit: Poisson counts around X, or nine tenths of its rows or "
            "columns",
            ("--resample",),
            "all fits have X itself",
            "Data of each fit",
        ),
        Setting(
            "side",
            Word(("H", "W")),
            {"consensus": None},
            "factor whose components are matched across fits",
            ("--side",),
            "H; W if columns are drawn",
            "Matched factor",
        ),
        Setting(
            "merge",
            Flag(),
            {"consensus": False, "programs": False, "signatures": True},
            "make each fit by NMF-Merge",
        ),
        Setting(
            "hypermutated",
            Word(("cap", "keep", "drop")),
            {"signatures": "cap"},
            "samples with more than ten times as many mutations as the median: scale them down to "
            "that, keep them, or find signatures without them",
            ("--hypermutated",),
            label="Hypermutated samples",
        ),
        Setting(
            "choose",
            Word(("stability", "assessment")),
            {"signatures": "stability"},
            "choose the number of signatures by SigProfiler's rule of stability, or by the "
            "assessment of the rank",
            ("--choose",),
            label="Number chosen by",
        ),
        Setting(
            "reference", Value(), {"signatures": None}, "table of known signatures to compare with"
        ),
        Setting(
            "n_resamples",
            Whole(0),
            {"signatures": 100},
            "resampled counts for intervals of activities",
            ("--resamples",),
            label="Resampled counts",
        ),
        Setting(
            "density_threshold",
            Number(0, above=True),
            {"consensus": 0.5, "programs": 0.5},
            "components are outliers if their mean distance to the nearest ones is larger",
            ("--density-threshold",),
            label="Density threshold",
        ),
        Setting(
            "n_top_genes",
            Whole(2),
            {"programs": 2000},
            "number of variable genes that are fitted",
            ("--genes",),
            label="Variable genes",
        ),
        Setting(
            "layer",
            Text(),
            _fits(None, programs=None),
            "layer of an AnnData to take instead of its X; raw for .raw",
            decides=False,  # by the data alone
        ),
        Setting(
            "mask_var",
            Text(),
            _fits(None, programs=None),
            "column of var of an AnnData that marks the genes to take, such as highly_variable",
            decides=False,
        ),
        Setting(
            "sample_key",
            Text(),
            {"programs": None},
            "column of obs with the sample of each cell",
            ("--sample-key",),
            "none",
            "Samples",
        ),
        Setting(
            "n_extra",
            Whole(0),
            _merging(None),
            "number of extra components, which are added and then merged",
            ("-k", "--extra"),
            "a fifth of the rank; 0 is plain NMF",
            "Extra components",
        ),
        Setting(
            "solver",
            Word(("accelerated", "hals", "gcd", "alspgrad", "mu")),
            _fits(
                "accelerated",
                rank_path="accelerated",
                consensus="accelerated",
                Editor="accelerated",
            ),
            "algorithm",
            ("--solver",),
            label="Solver",
        ),
        Setting(
            "beta_loss",
            LongWord((), ()),  # those of `nmfmerge.losses`
            _fits("frobenius", rank_path="frobenius", consensus="frobenius", programs="frobenius"),
            "what is minimised: frobenius, the squared error, or kullback-leibler (kl), for counts",
            ("--loss",),
            label="Loss",
        ),
        Setting(
            "missing",
            Word(("nan", "zeros")),
            _fits("nan", rank_path="nan", consensus="nan"),
            "missing entries: nan, or zeros, those that sparse data do not store",
            ("--missing",),
            label="Missing entries",
            decides=False,  # a checkpoint knows the observed data
        ),
        Setting(
            "init",
            WordOr(
                ("nndsvd", "nndsvda", "nndsvdar", "random"),
                "a pair of arrays (W0, H0)",
            ),
            _fits("nndsvd"),
            "initialization of the fit, or of its first start",
            ("--init",),
            label="First start",
        ),
        Setting(
            "n_init",
            Whole(1),
            _fits(4, nmf=1),
            "number of starts: --init and random ones; the best is kept; 1 is the method "
            "of the paper",
            ("--starts",),
            "%(default)s; 1 for plain NMF, -k 0",
            "Starts",
        ),
        Setting(
            "return_all",
            Flag(),
            {"nmf": False, "nmf_merge": False},
            "keep the solutions from all starts",
            decides=False,
        ),
        Setting(
            "alpha_W",
            Number(0),
            _fits(0.0),
            "weight of the penalty on W, as in scikit-learn",
            ("--alpha-W",),
            label="Penalty on W",
        ),
        Setting(
            "alpha_H",
            NumberOr(0, word="same"),
            _fits("same"),
            "weight of the penalty on H, or the word same: that of W",
            ("--alpha-H",),
            label="Penalty on H",
        ),
        Setting(
            "l1_ratio",
            Number(0, high=1),
            _fits(0.0),
            "share of L1 in the penalties; the rest is L2",
            ("--l1-ratio",),
            label="L1 share of the penalties",
        ),
        Setting("hold", Value(), _fits(None), "components of the start that do not change"),
        Setting(
            "tol",
            Number(0),
            _fits(1e-4, rank_path=1e-3, consensus=1e-4, programs=1e-3, Editor=1e-4),
            "stop when no component moves by more than this, relatively",
            ("--tol",),
            label="Tolerance",
        ),
        Setting(
            "tol_intermediate",
            Number(0),
            _merging(None),
            "the same for the stages before the last",
            ("--tol-intermediate",),
            "the square root of --tol; for kullback-leibler a tenth of it",
            "Tolerance of the earlier stages",
        ),
        Setting(
            "max_iter",
            Whole(1),
            _fits(10_000, rank_path=10_000, consensus=10_000, programs=10_000, Editor=10_000),
            "maximum number of iterations of a stage",
            ("--max-iter",),
            label="Most iterations of a stage",
            decides=False,
        ),
        Setting(
            "max_time",
            Number(0, above=True),
            _fits(None, rank_path=None, consensus=None, programs=None, signatures=None),
            "stop after this many seconds",
            ("--max-time",),
            "no limit",
            "Most seconds",
            decides=False,
        ),
        Setting(
            "random_state",
            Seed(),
            _fits(None, rank_path=None, consensus=None, programs=None, signatures=None),
            "seed of the random starts, a whole number",
            ("--seed",),
            "a fixed seed",
            "Seed",
        ),
        Setting(
            "callback",
            Function(),
            _fits(None, rank_path=None, consensus=None, programs=None, signatures=None),
            "called after each iteration",
            decides=False,
        ),
        Setting(
            "checkpoint",
            NewFile(),
            dict.fromkeys(("nmf", "nmf_merge", "consensus", "programs", "signatures")),
            "file for the state of the run",
            decides=False,
        ),
        Setting(
            "n_jobs",
            Threads(),
            _fits(None, rank_path=None, consensus=None, programs=None, signatures=None),
            "use at most this many threads; -1 is all",
            ("--threads",),
            "OMP_NUM_THREADS, or all cores",
            "Threads at most",
            decides=False,
        ),
        Setting(
            "device",
            Value(),
            _fits(None, consensus=None, programs=None, signatures=None),
            "device of the computation, such as cuda",
            ("--device",),
            "the CPU",
            "Device",
            decides=False,
        ),
        Setting(
            "tf32",
            Flag(),
            _fits(False),
            "allow TF32 in products on a GPU",
            decides=False,
        ),
        Setting(
            "verbose",
            Whole(0, a_level=True),
            _fits(0, rank_path=0, consensus=0, programs=0, signatures=0),
            "amount of progress output",
            decides=False,
        ),
        Setting(
            "stability",
            Flag(),
            {"rank_path": False},
            "also fit a path to each half of the data",
        ),
        Setting(
            "holdout",
            Number(0, high=0.5),
            {"rank_path": 0.0},
            "share of entries to hide in five more paths, which predict them",
            ("--holdout",),
            label="Held-out share",
        ),
    )
}


def allow(name: str, word: str, short: str = "") -> None:
    """Allow one more word, and its short form, as a value of a setting."""
    takes = SETTINGS[name].takes
    assert isinstance(takes, LongWord)
    if word not in takes.words:
        shorts = (*takes.short, (short, word)) if short else takes.short
        takes = LongWord((*takes.words, word), shorts)
        SETTINGS[name] = replace(SETTINGS[name], takes=takes)


def of(function: str) -> dict[str, Setting]:
    """The settings of a function, in the order of its signature."""
    return {name: setting for name, setting in SETTINGS.items() if function in setting.of}


def defaults(function: str) -> dict[str, Any]:
    """The defaults of a function."""
    return {name: setting.of[function] for name, setting in of(function).items()}


def checked(function: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a function among its arguments, checked."""
    return {name: setting.check(arguments[name]) for name, setting in of(function).items()}
