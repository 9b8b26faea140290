"""Fit a generated LC-MS run by standard NMF and by NMF-Merge, and compare them in a report."""

import argparse
from pathlib import Path

import numpy as np

from nmfmerge import metrics
from nmfmerge.api import nmf, nmf_merge
from nmfmerge.cli.common import (
    OK,
    add_output,
    pages_or_nothing,
    print_outcome,
    summary,
    warm_up,
)
from nmfmerge.cli.messages import ANOTHER_FOLDER
from nmfmerge.cli.progress import demo_bar
from nmfmerge.cli.settings import add_settings
from nmfmerge.datasets import lcms_like
from nmfmerge.datasets.base import Dataset
from nmfmerge.export.of_fit import Exports
from nmfmerge.ranks.alternatives import around
from nmfmerge.results.about import About
from nmfmerge.results.factorization import Factorization
from nmfmerge.settings import defaults
from nmfmerge.solvers.progress import ProgressBar
from nmfmerge.storage.folder import Fit, check_output, find, write
from nmfmerge.storage.provenance import now, versions

_DEFAULTS = defaults("nmf_merge")
_BETTER = 1e-3  # percentage points


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `demo`."""
    parser.add_argument(
        "--starts", type=int, default=_DEFAULTS["n_init"], metavar="N",
        help="number of starts of both methods: NNDSVD and random ones (default: %(default)s)",
    )  # fmt: skip
    add_output(parser, "output folder (default: %(default)s)", default=Path("nmfmerge-demo"))
    add_settings(parser, "nmf", ["n_jobs"])


def run(given: argparse.Namespace) -> int:
    """Compare the two methods from the same starts and write the best fit."""
    if given.starts < 1:
        raise ValueError(f"--starts {given.starts} is out of range: expected 1 or more")
    replace = given.force or _is_demo(given.output)
    check_output(given.output, replace, ANOTHER_FOLDER)
    data = lcms_like()
    with demo_bar() as bar:
        standard, merge = _fit(data, given.starts, bar)
        about = _about(data, standard, merge).updated(around=around(data.X, merge, bar))
        bar.section("")
        fit = Fit(merge, data, about)
        drawn = pages_or_nothing(fit, bar, given.output)
        write(given.output, fit, drawn, exports=Exports(fit), replace=replace)
    outcome = {
        "standard": summary(standard),
        "merge": summary(merge),
        "folder": str(given.output),
    }
    print_outcome(given, outcome, _text(data, standard, merge, given.output))
    return OK


def _is_demo(folder: Path) -> bool:
    """True if a folder holds an earlier demonstration, which may be replaced."""
    fit = find(folder)
    return fit is not None and bool(fit.about.generated)


def _fit(data: Dataset, n_starts: int, bar: ProgressBar) -> tuple[Factorization, Factorization]:
    """The best result of each method from the same starts, with all solutions."""
    X, r = data.X, data.n_components
    assert r is not None
    bar.enter("compiling")
    warm_up(_DEFAULTS["solver"], data)
    found = []
    for name, function in (("standard NMF", nmf), ("NMF-Merge", nmf_merge)):
        bar.section(name)
        found.append(function(X, r, n_init=n_starts, return_all=True, callback=bar))
    return found[0], found[1]


def _solutions(found: Factorization) -> tuple[Factorization, ...]:
    return found.solutions or (found,)


def _about(data: Dataset, standard: Factorization, merge: Factorization) -> About:
    n_starts = len(_solutions(merge))
    words = ["nmfmerge", "demo"] + ["--starts", str(n_starts)] * (n_starts != _DEFAULTS["n_init"])
    return About(
        title="A generated LC-MS run",
        file="nmfmerge.datasets.lcms_like()",
        generated=True,
        command=" ".join(words),
        settings={
            "n_components": data.n_components,
            "init": _DEFAULTS["init"],
            "n_init": n_starts,
        },
        versions=versions(),
        date=now(),
        compare={
            "standard_errors": [found.fitting_error for found in _solutions(standard)],
            "merge_errors": [found.fitting_error for found in _solutions(merge)],
        },
    )


def _text(data: Dataset, standard: Factorization, merge: Factorization, output: Path) -> str:
    from nmfmerge.report.stability import lead  # the drawing library loads for a second
    from nmfmerge.report.words import count

    m, n = data.X.shape
    names = [start.name for start in merge.starts] or [_DEFAULTS["init"]]
    pairs = list(zip(_solutions(standard), _solutions(merge), strict=True))
    lines = [
        f"{data.description} {m} mass bins × {n} scans, {data.n_components} compounds.",
        "",
        "                       fitting error (%)        compounds found",
        "start                standard   NMF-Merge    standard   NMF-Merge",
    ]
    for name, both in zip(names, pairs, strict=True):
        errors = [f"{found.fitting_error:>12.4f}" for found in both]
        counts = [f"{_compounds(data, found):>12}" for found in both]
        lines.append(f"{name:<17}" + "".join(errors + counts))
    lines.append("")
    for name, found in (("standard", standard), ("NMF-Merge", merge)):
        lines.append(f"{name:<10} best {found.fitting_error:.4f} %   {found.seconds:.1f} s")
    gains = [first.fitting_error - second.fitting_error for first, second in pairs]
    lower, higher = (sum(sign * gain > _BETTER for gain in gains) for sign in (1, -1))
    lines += [
        "",
        f"NMF-Merge ended lower from {lower} of {count(len(gains), 'start')}, higher from "
        f"{higher}.",
        *[lead(merge)] * bool(merge.starts),
        f"Report, figures and factors of its best fit: {output / 'report.html'}",
    ]
    return "\n".join(lines)


def _compounds(data: Dataset, found: Factorization) -> int:
    assert data.W is not None
    return int(np.sum(metrics.match_components(data.W, found.W)[1] > metrics.SAME_VECTOR))
