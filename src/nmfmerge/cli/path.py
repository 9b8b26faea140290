"""Fit a data file at every rank up to the highest, and say what the data tell about the rank."""

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
    reading_options,
    tell,
    warm_up,
)
from nmfmerge.cli.exporting import add_tables, check_exports, export_words
from nmfmerge.cli.messages import in_options
from nmfmerge.cli.progress import path_bar
from nmfmerge.cli.settings import (
    PATH_DEFAULTS,
    PATH_SETTINGS,
    add_settings,
    chosen_settings,
    setting_words,
)
from nmfmerge.datasets.base import Dataset
from nmfmerge.export.of_fit import Exports
from nmfmerge.folder import Fit, check_output, write
from nmfmerge.io import read
from nmfmerge.progress import ProgressBar
from nmfmerge.ranks import PathInterrupted, rank_path
from nmfmerge.result_path import RankPath


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `path`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="data file, or folder of images")
    parser.add_argument(
        "--max", type=int, required=True, dest="n_max", metavar="N", help="highest rank"
    )
    parser.add_argument(
        "--min", type=int, default=1, dest="n_min", metavar="N", help="lowest rank (default: 1)"
    )
    parser.add_argument(
        "-r", "--rank", type=int, metavar="N",
        help="rank to write as the fit of the folder (default: the one that the data speak for)",
    )  # fmt: skip
    parser.add_argument(
        "--no-stability", action="store_true",
        help="do not fit the halves of the data: half the time, and a less certain answer",
    )  # fmt: skip
    add_settings(parser, PATH_SETTINGS, PATH_DEFAULTS)
    add_output(parser, "folder to write (default: FILE.path in the present folder)")
    parser.add_argument("--no-report", action="store_true", help="write no report and no figures")
    add_tables(parser)
    add_reading(parser)


def run(given: argparse.Namespace) -> int:
    """Make the path, write it, and print what it says."""
    output = given.output or Path(f"{given.file.name}.path")
    about = how_made(given, _options(given), chosen_settings(given, PATH_SETTINGS))
    check_output(output, given.force)
    if given.rank is not None and not given.n_min <= given.rank <= given.n_max:
        raise ValueError(
            f"--rank {given.rank} is not between --min {given.n_min} and --max {given.n_max}"
        )
    stability, draws = not given.no_stability, not given.no_report
    with path_bar(given.n_max, given.n_min, stability, draws) as bar:
        bar.enter("reading")
        data = read(given.file, **reading_options(given))
        check_exports(given, data, given.n_max)
        try:
            path = _path(given, data, bar)
        except PathInterrupted as interrupted:
            _write(given, output, interrupted.path, data, about, bar)
            bar.write(f"nmfmerge: what was reached is written to {output}")
            raise
        rank = _write(given, output, path, data, about, bar)
    tell(given, _outcome(path) | {"rank": rank, "folder": str(output)}, _text(path, rank, output))
    return OK if path.converged else NOT_CONVERGED


def _path(given: argparse.Namespace, data: Dataset, bar: ProgressBar) -> RankPath:
    bar.enter("compiling")
    warm_up(given.solver, data)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return rank_path(
                data.X,
                given.n_max,
                given.n_min,
                **chosen_settings(given, PATH_SETTINGS),
                stability=not given.no_stability,
                callback=bar,
            )
    finally:
        for warning in caught:
            bar.write(f"nmfmerge: {in_options(str(warning.message), given)}")


def _write(
    given: argparse.Namespace,
    output: Path,
    path: RankPath,
    data: Dataset,
    about: dict[str, Any],
    bar: ProgressBar,
) -> int:
    """Write the path with the fit of one rank; return that rank."""
    rank = given.rank or path.first_choice
    fit = Fit(path[rank], data, about, path)
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
    words = ["--max", str(given.n_max)]
    words += ["--min", str(given.n_min)] * (given.n_min != 1)
    words += ["--no-stability"] * given.no_stability
    words += [] if given.rank is None else ["-r", str(given.rank)]
    return [*words, *setting_words(given, PATH_SETTINGS, PATH_DEFAULTS), *export_words(given)]
