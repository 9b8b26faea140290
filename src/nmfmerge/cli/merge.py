"""Merge the components of a fit down to fewer, and polish what remains."""

import argparse
import shlex
import warnings
from pathlib import Path

import numpy as np

from nmfmerge.alternatives import around, without_measured
from nmfmerge.cli.common import (
    NOT_CONVERGED,
    OK,
    add_data,
    add_output,
    pages_or_nothing,
    summary,
    tell,
)
from nmfmerge.cli.exporting import add_tables, check_exports, export_words
from nmfmerge.cli.progress import merge_bar
from nmfmerge.cli.settings import DEFAULTS
from nmfmerge.export.of_fit import Exports
from nmfmerge.folder import Fit, FolderError, check_output, read, write
from nmfmerge.metrics import shares
from nmfmerge.origin import data_again, digest, now, versions, why_absent
from nmfmerge.pipeline import merge_components, nmf
from nmfmerge.result import Factorization


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `merge`."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder that `fit` has written")
    parser.add_argument(
        "-r", "--rank", type=int, metavar="N", help="merge until this number of components is left"
    )
    parser.add_argument(
        "--max-penalty", type=float, metavar="NUMBER",
        help="stop before a merge that moves the fit by more than this (squared distance)",
    )  # fmt: skip
    parser.add_argument(
        "--tol", type=float, default=DEFAULTS["tol"], metavar="NUMBER",
        help="stop the polish when no component moves by more than this, relatively "
        "(default: %(default)s)",
    )  # fmt: skip
    add_tables(parser)
    add_data(parser)
    add_output(parser, "folder to write (default: the folder's name with the number of components)")


def run(given: argparse.Namespace) -> int:
    """Merge, polish and write."""
    if given.rank is None and given.max_penalty is None:
        raise ValueError("say where to stop: -r NUMBER of components, or --max-penalty")
    fit = read(given.folder)
    rank = 1 if given.rank is None else given.rank
    W, H, tree = merge_components(fit.result.W, fit.result.H, rank, max_penalty=given.max_penalty)
    folder = given.folder.resolve()
    output = given.output or folder.with_name(f"{folder.name}-{len(H)}")
    check_output(output, replace=given.force)
    data = data_again(fit, given.data)
    if data is None:
        raise FolderError(
            f"the data of {given.folder} ({fit.about.get('file')}) {why_absent(fit)}: name their "
            "file with --data, and it is read whole"
        )
    check_exports(given, data, len(H))
    bar = merge_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether it converged is told below
        polished = nmf(data.X, len(H), init=(W, H), tol=given.tol, callback=bar)
    result = Factorization(
        polished.W, polished.H, polished.objective, polished.fitting_error, polished.stages,
        polished.status, polished.seconds, merges=tree,
    )  # fmt: skip
    result = result.reordered(np.argsort(-shares(result.W, result.H), kind="stable").tolist())
    command = ["nmfmerge", "merge", str(given.folder), "-r", str(len(H)), "--tol", f"{given.tol:g}"]
    about = without_measured(fit.about) | {
        "around": around(data.X, result, bar),
        "command": shlex.join([*command, *export_words(given)]),
        "settings": {"n_components": len(H), "solver": DEFAULTS["solver"], "tol": given.tol,
                     "init": f"components of {folder.name}, merged"},
        "versions": versions(),
        "date": now(),
        "notes": [f"Merged from the {fit.result.n_components} components of {folder.name}, which "
                  f"were fitted by: {fit.about.get('command')}"],
    }  # fmt: skip
    if given.data is not None:
        for name in ("streamed", "data_sample_sha256"):  # they have been read whole now
            about.pop(name, None)
        about |= {"file": str(given.data.resolve()), "data_sha256": digest(given.data)}
    bar.section("")
    merged = Fit(result, data, about)
    drawn, exports = pages_or_nothing(merged, bar, output), Exports(merged)
    bar.close()
    write(output, merged, drawn, exports=exports, tables=given.tables, replace=given.force)
    tell(given, summary(result) | {"folder": str(output), "penalties": tree.penalties},
         f"{result}\nwritten to {output}{exports.remarks}")  # fmt: skip
    return OK if result.converged else NOT_CONVERGED
