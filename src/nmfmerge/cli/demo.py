"""Fit a generated LC-MS run by standard NMF and by NMF-Merge, and report what was gained."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge import metrics
from nmfmerge.cli.common import (
    OK,
    add_output,
    pages,
    summary,
    tell,
    warm_up,
)
from nmfmerge.cli.progress import LiveLine
from nmfmerge.cli.settings import DEFAULTS
from nmfmerge.datasets import lcms_like
from nmfmerge.datasets.base import Dataset
from nmfmerge.folder import Fit, check_output, write
from nmfmerge.origin import now, versions
from nmfmerge.pipeline import nmf, nmf_merge
from nmfmerge.result import Factorization

_FOUND = 0.95  # cosine from which a compound counts as found
_BETTER = 1e-3  # percentage points


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `demo`."""
    parser.add_argument(
        "--starts", type=int, default=10, metavar="N",
        help="number of random starts to compare (default: %(default)s)",
    )  # fmt: skip
    add_output(parser, "folder to write (default: %(default)s)", default=Path("nmfmerge-demo"))


def run(given: argparse.Namespace) -> int:
    """Compare the two methods and write the best fit."""
    if given.starts < 1:
        raise ValueError(f"--starts {given.starts} is out of range: expected 1 or more")
    check_output(given.output, replace=given.force)
    data = lcms_like()
    standard, merge = _compare(data, given.starts)
    result = min(merge, key=lambda found: found.fitting_error)
    fit = Fit(result, data, _about(data, standard, merge))
    write(given.output, fit, pages(fit), replace=given.force)
    outcome = {
        "standard": [summary(found) for found in standard],
        "merge": [summary(found) for found in merge],
        "folder": str(given.output),
    }
    tell(given, outcome, _text(data, standard, merge, given.output))
    return OK


def _compare(data: Dataset, starts: int) -> tuple[list[Factorization], list[Factorization]]:
    X, r = data.X, data.n_components
    assert r is not None
    warm_up(DEFAULTS["solver"], data)
    live = LiveLine()
    pairs = [
        [function(X, r, init="random", random_state=seed, callback=live)
         for function in (nmf, nmf_merge)]
        for seed in range(starts)
    ]  # fmt: skip
    live.clear()
    standard, merge = (list(column) for column in zip(*pairs, strict=True))
    return standard, merge


def _about(
    data: Dataset, standard: list[Factorization], merge: list[Factorization]
) -> dict[str, Any]:
    return {
        "title": "A generated LC-MS run",
        "file": "nmfmerge.datasets.lcms_like()",
        "generated": True,
        "command": "nmfmerge demo",
        "settings": {"n_components": data.n_components, "init": "random", "starts": len(merge)},
        "versions": versions(),
        "date": now(),
        "compare": {
            "standard_errors": [found.fitting_error for found in standard],
            "merge_errors": [found.fitting_error for found in merge],
        },
    }


def _text(
    data: Dataset, standard: list[Factorization], merge: list[Factorization], output: Path
) -> str:
    m, n = data.X.shape
    lines = [
        f"{data.description} {m} mass bins × {n} scans, {data.n_components} compounds.",
        "",
        "            fitting error (%)        compounds found",
        "start     standard   NMF-Merge    standard   NMF-Merge",
    ]
    for seed, both in enumerate(zip(standard, merge, strict=True)):
        errors = [f"{found.fitting_error:>12.4f}" for found in both]
        counts = [f"{_compounds(data, found):>12}" for found in both]
        lines.append(f"{seed:>5}" + "".join(errors + counts))
    lines.append("")
    for name, found in (("standard", standard), ("NMF-Merge", merge)):
        values = np.array([result.fitting_error for result in found])
        seconds = sum(result.seconds for result in found)
        lines.append(f"{name:<10} {values.mean():.4f} ± {values.std():.4f} %   {seconds:.1f} s")
    gains = [a.fitting_error - b.fitting_error for a, b in zip(standard, merge, strict=True)]
    lower, higher = (sum(sign * gain > _BETTER for gain in gains) for sign in (1, -1))
    lines += [
        "",
        f"NMF-Merge ended lower from {lower} of {len(gains)} starts, higher from {higher}.",
        f"Report, figures and factors of its best fit: {output / 'report.html'}",
    ]
    return "\n".join(lines)


def _compounds(data: Dataset, found: Factorization) -> int:
    assert data.W is not None
    return int(np.sum(metrics.match_components(data.W, found.W)[1] > _FOUND))
