"""Fit a data file at every rank up to the highest, and assess which rank the data support."""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.cli.common import (
    NOT_CONVERGED,
    OK,
    add_output,
    add_reading,
    how_made,
    pages_or_nothing,
    print_outcome,
    reading_options,
    warm_up,
)
from nmfmerge.cli.exporting import add_tables, check_exports, export_words
from nmfmerge.cli.messages import ANOTHER_FOLDER, in_options
from nmfmerge.cli.progress import path_bar
from nmfmerge.cli.settings import (
    add_settings,
    chosen_settings,
    loss_of,
    setting_words,
)
from nmfmerge.cli.weights import (
    add_weights,
    check_weights,
    weights_of,
    weights_words,
)
from nmfmerge.datasets.base import Dataset
from nmfmerge.export.of_fit import Exports
from nmfmerge.io import read
from nmfmerge.ranks.holdout import N_MASKS
from nmfmerge.ranks.path import PathInterrupted, rank_path
from nmfmerge.results.about import About
from nmfmerge.results.rank_path import RankPath
from nmfmerge.solvers.progress import ProgressBar
from nmfmerge.storage.folder import Fit, check_output, write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `path`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="data file, or folder of images")
    add_settings(parser, "rank_path")
    parser.add_argument(
        "-r", "--rank", type=int, metavar="N",
        help="rank of the fit in the folder (default: the rank that the assessment finds)",
    )  # fmt: skip
    parser.add_argument(
        "--no-stability", action="store_true",
        help="do not fit the halves of the data: half the time, but a less certain answer",
    )  # fmt: skip
    add_output(parser, "output folder (default: FILE.path in the current folder)")
    parser.add_argument("--no-report", action="store_true", help="write no report and no figures")
    add_tables(parser)
    add_weights(parser)
    add_reading(parser)


def run(given: argparse.Namespace) -> int:
    """Make the path, write it, and print what it says."""
    output = given.output or Path(f"{given.file.name}.path")
    check_weights(given)
    about = how_made(given, _options(given), chosen_settings(given, "rank_path"))
    check_output(output, given.force, ANOTHER_FOLDER)
    if given.rank is not None and not given.n_min <= given.rank <= given.n_max:
        raise ValueError(
            f"--rank {given.rank} is not between --min {given.n_min} and --max {given.n_max}"
        )
    stability, draws = not given.no_stability, not given.no_report
    masks = N_MASKS if given.holdout else 0
    with path_bar(given.n_max, given.n_min, stability, draws, masks) as bar:
        bar.enter("reading")
        data = read(given.file, **reading_options(given))
        weights = weights_of(given, data)
        check_exports(given, data, given.n_max)
        try:
            path = _path(given, data, weights, bar)
        except PathInterrupted as interrupted:
            _write(given, output, interrupted.path, data, weights, about, bar)
            bar.write(f"nmfmerge: what was reached is written to {output}")
            raise
        rank = _write(given, output, path, data, weights, about, bar)
    print_outcome(
        given, _outcome(path) | {"rank": rank, "folder": str(output)}, _text(path, rank, output)
    )
    return OK if path.converged else NOT_CONVERGED


def _path(given: argparse.Namespace, data: Dataset, weights: Any, bar: ProgressBar) -> RankPath:
    bar.enter("compiling")
    warm_up(given.solver, data, loss_of(given), weights is not None)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return rank_path(
                data.X,
                weights=weights,
                **chosen_settings(given, "rank_path"),
                stability=not given.no_stability,
                callback=bar,
            )
    finally:
        for warning in caught:
            bar.write(f"nmfmerge: {in_options(warning.message)}")


def _write(
    given: argparse.Namespace,
    output: Path,
    path: RankPath,
    data: Dataset,
    weights: Any,
    about: About,
    bar: ProgressBar,
) -> int:
    """Write the path with the fit of one rank; return that rank."""
    rank = given.rank or path.first_choice
    fit = Fit(path[rank], data, about, path, weights=weights)
    drawn = {} if given.no_report else pages_or_nothing(fit, bar, output)
    exports = Exports(fit)
    write(output, fit, drawn, exports=exports, tables=given.tables, replace=given.force)
    if exports.remarks:
        bar.write(exports.remarks.strip())
    return rank


def _text(path: RankPath, rank: int, output: Path) -> str:
    written = f"written to {output}, with the fit of rank {rank}"
    return "\n".join([repr(path), "", str(path.assess()), "", written])


def _outcome(path: RankPath) -> dict[str, Any]:
    """The path for scripts."""
    return {
        "ranks": path.ranks,
        "fitting_errors": _numbers(path.fitting_errors),
        "penalties": _numbers(path.penalties),
        "structure": _numbers(path.structure),
        "stability": _numbers(path.stability),
        "held_out": _numbers(path.held_out),
        "held_out_error": _numbers(path.held_out_error),
        "assessment": vars(path.assess()),
        "status": path.status,
        "converged": path.converged,
        "seconds": path.seconds,
    }


def _numbers(values: np.ndarray) -> list[float | None]:
    """Numbers for JSON, which has no NaN."""
    return [None if np.isnan(value) else value for value in values.tolist()]


def _options(given: argparse.Namespace) -> list[str]:
    """The options of the path, as they are typed."""
    words = setting_words(chosen_settings(given, "rank_path"), "rank_path")
    words += ["--no-stability"] * given.no_stability
    words += [] if given.rank is None else ["-r", str(given.rank)]
    return words + weights_words(given) + export_words(given)
