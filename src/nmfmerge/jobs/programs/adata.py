"""Gene programmes in an AnnData, in the places where scanpy looks."""

from typing import TYPE_CHECKING, Any

import numpy as np

from nmfmerge._version import __version__
from nmfmerge.arguments.errors import ArgumentError, wrong_type
from nmfmerge.inputs.conversion import is_a
from nmfmerge.io.errors import library

if TYPE_CHECKING:
    from nmfmerge.jobs.programs.result import Programs

_TOP = 100  # genes of each programme


def add_to(found: "Programs", adata: Any) -> Any:
    """Add usages, spectra and what they were made by to the AnnData that was analysed.

    Cells and genes that were left out have zeros.
    """
    counts = found.prepared.counts
    if not is_a(adata, "anndata", "AnnData"):
        raise wrong_type("adata", adata, "the AnnData that was analysed")
    if adata.raw is not None and _fits(counts.all_genes, adata.raw.var_names):
        adata = adata if _fits(counts.all_genes, adata.var_names) else adata.raw.to_adata()
    for names, own, what in (
        (counts.all_cells, adata.obs_names, "cells"),
        (counts.all_genes, adata.var_names, "genes"),
    ):
        if not _fits(names, own):
            raise ArgumentError(
                "adata",
                f"has {len(own)} {what}, and the programmes are of {len(names)}, or others",
                fix="give the AnnData that was analysed",
            )
    numbers = [str(k) for k in found.usages]
    usages = _placed(found.usages.to_numpy(), counts.of_cells)
    adata.obsm["usages"] = usages
    for k, usage in zip(numbers, usages.T, strict=True):
        adata.obs[f"usage_{k}"] = usage
    adata.obs["program"] = _most(usages, numbers)
    for name in ("gene_spectra_score", "gene_spectra_tpm"):
        adata.varm[name] = _placed(getattr(found, name).to_numpy().T, counts.of_genes)
    fitted = np.zeros(adata.n_vars, dtype=bool)
    fitted[np.flatnonzero(counts.of_genes)[found.prepared.genes]] = True
    adata.var["program_genes"] = fitted
    adata.uns["programs"] = _facts(found)
    return adata


def _fits(names: np.ndarray, own: Any) -> bool:
    return np.array_equal(names, np.asarray(own, dtype=np.str_))


def _placed(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Rows at their places among all, zeros elsewhere."""
    placed = np.zeros((len(places), values.shape[1]), values.dtype)
    placed[places] = values
    return placed


def _most(usages: np.ndarray, names: list[str]) -> Any:
    """The programme that each cell uses most, as a category; none where it uses none."""
    pandas = library("pandas", "AnnData", "pandas", "single-cell", doing="writing")
    largest = np.where(usages.any(axis=1), usages.argmax(axis=1), -1)
    return pandas.Categorical.from_codes(largest, names)


def _facts(found: "Programs") -> dict[str, Any]:
    """How the programmes were found: tables and numbers that .h5ad files store."""
    pandas = library("pandas", "AnnData", "pandas", "single-cell", doing="writing")
    facts = {
        "n_components": found.n_components,
        "density_threshold": found.density_threshold,
        "beta_loss": found.prepared.beta_loss,
        "ranks": pandas.DataFrame(found.consensus.table()),
        "silhouettes": found.rank_consensus.silhouettes,
        "top_genes": found.top_genes(_TOP).rename(columns=str),
        "version": __version__,
    }
    samples = found.sample_usages()
    return facts if samples is None else facts | {"samples": samples.rename(columns=str)}
