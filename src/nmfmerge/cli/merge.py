"""Merge components of a fit until fewer are left, and fit the remaining ones again."""

import argparse
import shlex
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.api import merge_components, nmf
from nmfmerge.cli.common import (
    NOT_CONVERGED,
    OK,
    add_data,
    add_output,
    pages_or_nothing,
    print_outcome,
    summary,
)
from nmfmerge.cli.exporting import add_tables, check_exports, export_words
from nmfmerge.cli.messages import ANOTHER_FOLDER
from nmfmerge.cli.progress import merge_bar
from nmfmerge.cli.settings import add_settings
from nmfmerge.export.of_fit import Exports
from nmfmerge.losses import LOSSES
from nmfmerge.ranks.alternatives import around
from nmfmerge.settings import defaults
from nmfmerge.storage.folder import Fit, FolderError, check_output, read, write
from nmfmerge.storage.provenance import (
    data_again,
    digest,
    now,
    versions,
    weights_again,
    why_absent,
)

_OBJECTIVE = ("beta_loss", "missing", "alpha_W", "alpha_H", "l1_ratio")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `merge`."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder written by `fit`")
    parser.add_argument(
        "-r", "--rank", type=int, metavar="N", help="merge until this number of components is left"
    )
    parser.add_argument(
        "--max-penalty", type=float, metavar="NUMBER",
        help="stop before a merge that moves the fit by more than this (squared distance, or "
             "divergence)",
    )  # fmt: skip
    add_settings(parser, "nmf", ["tol"])
    add_tables(parser)
    add_data(parser)
    add_output(parser, "folder to write (default: the folder's name with the number of components)")
    add_settings(parser, "nmf", ["n_jobs"])


def run(given: argparse.Namespace) -> int:
    """Merge, polish and write."""
    if given.rank is None and given.max_penalty is None:
        raise ValueError("say where to stop: -r NUMBER of components, or --max-penalty")
    fit = read(given.folder)
    rank, loss = 1 if given.rank is None else given.rank, LOSSES[fit.result.loss]
    objective: dict[str, Any] = {name: fit.about.settings.get(name) for name in _OBJECTIVE}
    objective = {name: value for name, value in objective.items() if value is not None}
    objective["beta_loss"] = loss.name
    W, H, tree = merge_components(
        fit.result.W, fit.result.H, rank, beta_loss=loss.name, max_penalty=given.max_penalty
    )
    folder = given.folder.resolve()
    output = given.output or folder.with_name(f"{folder.name}-{len(H)}")
    check_output(output, given.force, ANOTHER_FOLDER)
    data = data_again(fit, given.data)
    if data is None:
        raise FolderError(
            f"the data of {given.folder} ({fit.about.file}) {why_absent(fit)}: name their "
            "file with --data, and it is read whole"
        )
    weights = weights_again(fit, data, given.data)
    check_exports(given, data, len(H))
    bar = merge_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its status is printed below
        polished = nmf(
            data.X, len(H), weights=weights, init=(W, H), tol=given.tol, callback=bar, **objective
        )
    result = replace(polished, merges=tree)
    result = result.reordered(np.argsort(-result.shares(), kind="stable").tolist())
    command = ["nmfmerge", "merge", str(given.folder), "-r", str(len(H)), "--tol", f"{given.tol:g}"]
    ranks = around(data.X, result, bar, fit.about.missing, weights) if loss.judges_ranks else None
    about = fit.about.without_measured().updated(
        around=ranks,
        command=shlex.join([*command, *export_words(given)]),
        settings={"n_components": len(H), "solver": defaults("nmf")["solver"], "tol": given.tol,
                  "init": f"components of {folder.name}, merged", **objective},
        versions=versions(),
        date=now(),
        notes=[f"Merged from the {fit.result.n_components} components of {folder.name}, which "
               f"were fitted by: {fit.about.command}"],
    )  # fmt: skip
    if given.data is not None:  # they have been read whole now
        about = about.updated(
            file=str(given.data.resolve()), data_sha256=digest(given.data),
            streamed=None, data_sample_sha256=None,
        )  # fmt: skip
    bar.section("")
    merged = Fit(result, data, about, weights=weights)
    drawn, exports = pages_or_nothing(merged, bar, output), Exports(merged)
    bar.close()
    write(output, merged, drawn, exports=exports, tables=given.tables, replace=given.force)
    print_outcome(given, summary(result) | {"folder": str(output), "penalties": tree.penalties},
         f"{result}\nwritten to {output}{exports.remarks}")  # fmt: skip
    return OK if result.converged else NOT_CONVERGED
