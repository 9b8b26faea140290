"""Find gene programmes in single cells by the consensus of many fits, as cNMF does."""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.cli.common import (
    NOT_CONVERGED,
    OK,
    add_output,
    add_reading,
    how_made,
    pages_or_nothing,
    print_outcome,
    reading_options,
)
from nmfmerge.cli.messages import in_options
from nmfmerge.cli.progress import consensus_bar
from nmfmerge.cli.settings import add_settings, chosen_settings, setting_words
from nmfmerge.cli.unfinished import Unfinished, add_resume
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.export.single_cell import new_anndata
from nmfmerge.io import read
from nmfmerge.io.errors import FormatError, library, one_line
from nmfmerge.jobs.programs import Programs, programs
from nmfmerge.jobs.programs.counts import check_axes
from nmfmerge.jobs.programs.result import check_name, rank_to_take
from nmfmerge.settings import SETTINGS
from nmfmerge.solvers.history import Status
from nmfmerge.solvers.progress import ProgressBar
from nmfmerge.storage.folder import Fit, write

_UMAP = "X_umap"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `programs`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="counts: .h5ad, or 10x Genomics")
    add_settings(parser, "programs")
    parser.add_argument(
        "--mask-var", metavar="NAME",
        help=f"{SETTINGS['mask_var'].doc} (default: the most variable genes)",
    )  # fmt: skip
    parser.add_argument("--merge", action="store_true", help="make each fit by NMF-Merge")
    parser.add_argument(
        "-r", "--rank", type=int, metavar="N",
        help="number of programmes to write (default: the assessed one, or the most "
        "that are stable)",
    )  # fmt: skip
    parser.add_argument(
        "--name", help="what the names of the tables begin with (default: that of the file)"
    )
    add_output(parser, "output folder (default: FILE.programs in the current folder)")
    parser.add_argument("--no-report", action="store_true", help="write no report")
    add_resume(parser)
    add_reading(parser)


def run(given: argparse.Namespace) -> int:
    """Find the programmes, write them, and print what they are."""
    output = given.output or Path(f"{given.file.name}.programs")
    chosen = chosen_settings(given, "programs")
    _check_rank(given, chosen)
    if given.name is not None:
        check_name(given.name)
    method = {"Each fit": "NMF-Merge" if given.merge else "NMF"}
    if given.mask_var is not None:
        method["Genes marked by"] = given.mask_var
    about = how_made(given, _options(given, chosen), chosen | method)
    unfinished = Unfinished(output)
    with unfinished.locked():
        replace = unfinished.begin(given)
        with consensus_bar(not given.no_report) as bar:
            bar.enter("reading")
            adata = _read(given)
            try:
                found = _found(given, adata, chosen, unfinished, bar)
            except KeyboardInterrupt:
                unfinished.advise(bar)
                raise
            about = about.updated(notes=_notes(given, found))
            fit = Fit(
                found.rank_consensus.factorization, _data(given, found), about,
                consensus=found.consensus,
            )  # fmt: skip
            drawn = {} if given.no_report else pages_or_nothing(fit, bar, output)
            bar.enter("writing")
            write(output, fit, drawn, exports=_Files(given, found, adata), replace=replace)
        if found.consensus.status is not Status.MAX_TIME:
            unfinished.clear()
    print_outcome(given, _outcome(found, output), _text(found, output))
    return OK if found.consensus.converged else NOT_CONVERGED


def _check_rank(given: argparse.Namespace, chosen: dict[str, Any]) -> None:
    ranks = SETTINGS["ranks"].check(chosen["ranks"])
    if given.rank is not None and given.rank not in ranks:
        raise ArgumentError(
            "n_components", "is not fitted", value=given.rank,
            expected="one of " + ", ".join(map(str, ranks)),
        )  # fmt: skip


def _read(given: argparse.Namespace) -> Any:
    """The AnnData of the file, made from cells and genes where it is of another format."""
    options = reading_options(given)
    if given.file.suffix.lower() != ".h5ad":
        data = read(given.file, **options)
        check_axes(data)
        return new_anndata(data)
    if others := [name for name in options if name != "layer"]:
        raise ArgumentError(others[0], "is not for .h5ad files", value=options[others[0]])
    if not given.file.exists():
        raise FileNotFoundError(f"{given.file} was not found: check its name and folder")
    anndata = library("anndata", ".h5ad", "anndata", "single-cell")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are not unique, and of old files
        try:
            return anndata.read_h5ad(given.file)
        except Exception as error:  # whatever odd files make the reader raise
            raise FormatError(
                f"{given.file} cannot be read as an AnnData ({one_line(error)}): write it with "
                "anndata's write_h5ad"
            ) from error


def _found(
    given: argparse.Namespace,
    adata: Any,
    chosen: dict[str, Any],
    unfinished: Unfinished,
    bar: ProgressBar,
) -> Programs:
    """The programmes; warnings are printed as sentences."""

    def show_warning(message: Any, *_: Any, **__: Any) -> None:
        bar.write(f"nmfmerge: {in_options(message)}")

    with unfinished.continued(), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show_warning
        found = programs(
            adata, **chosen, merge=given.merge, layer=given.layer, mask_var=given.mask_var,
            callback=bar, checkpoint=unfinished.checkpoint,
        )  # fmt: skip
        return found if given.rank in (None, found.n_components) else found.at(given.rank)


def _data(given: argparse.Namespace, found: Programs) -> Dataset:
    """The fitted matrix, with its names."""
    return Dataset(
        given.file.name,
        found.prepared.X,
        None,
        Axis("cell", np.asarray(found.usages.index, dtype=np.str_)),
        Axis("gene", np.asarray(found.spectra.columns, dtype=np.str_)),
    )


class _Files:
    """Writes the tables, the figures and the AnnData into a folder."""

    def __init__(self, given: argparse.Namespace, found: Programs, adata: Any) -> None:
        self.name, self.found, self.adata = (
            given.file.stem if given.name is None else given.name,
            found,
            adata,
        )

    def __call__(self, folder: Path) -> None:
        self.found.write(folder, self.name, self.adata.obsm.get(_UMAP))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that are not unique
            self.found.add_to(self.adata).write_h5ad(folder / "result.h5ad")


def _notes(given: argparse.Namespace, found: Programs) -> list[str]:
    """Sentences for the report."""
    r, dropped = found.rank_consensus, found.prepared.counts.dropped
    how = "NMF-Merge" if given.merge else "NMF"
    notes = [
        f"The components are the medians of {r.n_fits} fits by {how} of the variable genes, "
        f"with a mean silhouette of {r.silhouette:.2f} and {r.n_outliers} outliers left out. "
        "Their spectra in all genes, and usages that add up to one, are in the tables beside "
        "this page."
    ]
    if len(dropped):
        have = "cell has" if len(dropped) == 1 else "cells have"
        notes.append(f"{len(dropped)} {have} no counts of these genes; left out.")
    return notes + [
        f"Nearly all use of component {k} is in sample {sample!r}."
        for k, sample in found.of_one_sample().items()
    ]


def _options(given: argparse.Namespace, chosen: dict[str, Any]) -> list[str]:
    """The options, as they are typed."""
    words = setting_words(chosen, "programs") + ["--merge"] * given.merge
    words += [] if given.mask_var is None else ["--mask-var", given.mask_var]
    words += [] if given.rank is None else ["-r", str(given.rank)]
    return words if given.name is None else [*words, "--name", given.name]


def _outcome(found: Programs, output: Path) -> dict[str, Any]:
    """The programmes for scripts."""
    return {
        "n_components": found.n_components,
        "assessment": vars(found.consensus.assess()),
        "ranks": found.consensus.table(),
        "top_genes": {str(k): list(genes) for k, genes in found.top_genes(20).items()},
        "dropped_cells": list(found.prepared.counts.dropped),
        "of_one_sample": {str(k): name for k, name in found.of_one_sample().items()},
        "status": found.consensus.status,
        "converged": found.consensus.converged,
        "seconds": found.consensus.seconds,
        "folder": str(output),
    }


def _text(found: Programs, output: Path) -> str:
    consensus = found.consensus
    why = (
        f"\nRank {found.n_components} is the highest of the most stable ones (mean silhouette); "
        "another is written with -r."
    ) * (consensus.assess().low is None and found.n_components == rank_to_take(consensus))
    return f"{consensus}\n\n{consensus.assess()}{why}\n\n{found}\n\nwritten to {output}"
