"""Make many fits of a data file at each rank, and write the components that they agree on."""

import argparse
import warnings
from pathlib import Path
from typing import Any

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
from nmfmerge.cli.messages import in_options
from nmfmerge.cli.progress import consensus_bar
from nmfmerge.cli.settings import add_settings, chosen_settings, loss_of, setting_words
from nmfmerge.cli.unfinished import Unfinished, add_resume
from nmfmerge.cli.weights import (
    add_weights,
    check_weights,
    weights_of,
    weights_words,
)
from nmfmerge.consensus.engine import ConsensusInterrupted
from nmfmerge.consensus.start import consensus
from nmfmerge.datasets.base import Dataset
from nmfmerge.export.of_fit import Exports
from nmfmerge.io import read
from nmfmerge.results.about import About
from nmfmerge.results.consensus import Consensus
from nmfmerge.settings import SETTINGS
from nmfmerge.solvers.history import Status
from nmfmerge.solvers.progress import ProgressBar
from nmfmerge.storage.folder import Fit, write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `consensus`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="data file, or folder of images")
    add_settings(parser, "consensus")
    parser.add_argument("--merge", action="store_true", help=SETTINGS["merge"].doc)
    parser.add_argument(
        "-r", "--rank", type=int, metavar="N",
        help="rank of the fit in the folder (default: the rank that the assessment finds)",
    )  # fmt: skip
    add_resume(parser)
    add_output(parser, "output folder (default: FILE.consensus in the current folder)")
    parser.add_argument("--no-report", action="store_true", help="write no report and no figures")
    add_tables(parser)
    add_weights(parser)
    add_reading(parser)


def run(given: argparse.Namespace) -> int:
    """Find the consensus, write it, and print what it says."""
    output = given.output or Path(f"{given.file.name}.consensus")
    check_weights(given)
    chosen = chosen_settings(given, "consensus")
    chosen["ranks"] = SETTINGS["ranks"].check(given.ranks)
    if given.rank is not None and given.rank not in chosen["ranks"]:
        raise ValueError(f"--rank {given.rank} is not among --ranks {given.ranks}")
    kept = {name: value for name, value in chosen.items() if value is not None}
    method = {"Each fit": "NMF-Merge" if given.merge else "NMF"}
    about = how_made(given, _options(given), kept | {"ranks": given.ranks} | method)
    unfinished = Unfinished(output)
    with unfinished.locked():
        replace = unfinished.begin(given)
        with consensus_bar(not given.no_report) as bar:
            bar.enter("reading")
            data = read(given.file, **reading_options(given))
            weights = weights_of(given, data)
            check_exports(given, data, 2 * max(chosen["ranks"]) + 1)
            try:
                result = _consensus(given, chosen, data, weights, unfinished, bar)
            except ConsensusInterrupted as interrupted:
                _write(given, output, interrupted.consensus, data, weights, about, bar, replace)
                bar.write(f"nmfmerge: the consensus of the finished fits is written to {output}")
                unfinished.advise(bar)
                raise
            rank = _write(given, output, result, data, weights, about, bar, replace)
        if result.status is not Status.MAX_TIME:
            unfinished.clear()
    outcome = _outcome(result) | {"rank": rank, "folder": str(output)}
    print_outcome(given, outcome, _text(result, rank, output))
    return OK if result.converged else NOT_CONVERGED


def _consensus(
    given: argparse.Namespace,
    chosen: dict[str, Any],
    data: Dataset,
    weights: Any,
    unfinished: Unfinished,
    bar: ProgressBar,
) -> Consensus:
    bar.enter("compiling")
    warm_up(given.solver, data, loss_of(given), weights is not None)
    try:
        with unfinished.continued(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return consensus(
                data, weights=weights, **chosen, merge=given.merge,
                checkpoint=unfinished.checkpoint, callback=bar,
            )  # fmt: skip
    finally:
        for warning in caught:
            bar.write(f"nmfmerge: {in_options(warning.message)}")


def _write(
    given: argparse.Namespace,
    output: Path,
    result: Consensus,
    data: Dataset,
    weights: Any,
    about: About,
    bar: ProgressBar,
    replace: bool,
) -> int:
    """Write the consensus with the fit of one rank; return that rank."""
    rank = given.rank if given.rank in result else result.first_choice
    fit = Fit(result[rank].factorization, data, about, consensus=result, weights=weights)
    drawn = {} if given.no_report else pages_or_nothing(fit, bar, output)
    exports = Exports(fit)
    write(output, fit, drawn, exports=exports, tables=given.tables, replace=replace)
    if exports.remarks:
        bar.write(exports.remarks.strip())
    return int(rank)


def _text(result: Consensus, rank: int, output: Path) -> str:
    written = f"written to {output}, with the consensus of rank {rank}"
    return "\n".join([repr(result), "", str(result.assess()), "", written])


def _outcome(result: Consensus) -> dict[str, Any]:
    """The consensus for scripts."""
    return {
        "ranks": result.table(),
        "assessment": vars(result.assess()),
        "status": result.status,
        "converged": result.converged,
        "seconds": result.seconds,
    }


def _options(given: argparse.Namespace) -> list[str]:
    """The options of the command, as they are typed."""
    words = setting_words(chosen_settings(given, "consensus"), "consensus")
    words += ["--merge"] * given.merge
    words += [] if given.rank is None else ["-r", str(given.rank)]
    return words + weights_words(given) + export_words(given)
