"""The input of the fits: variable genes of the cells, each at variance 1."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ArgumentError, Given, Message
from nmfmerge.jobs.programs.counts import Counts, counts_elsewhere, counts_of
from nmfmerge.jobs.programs.genes import chosen_genes, moments, per_million, variation
from nmfmerge.losses import LOSSES

_NAMED = 5  # dropped cells in a warning


@dataclass(frozen=True, eq=False)
class Prepared:
    """The input of a fit, and what its results are computed from.

    Attributes
    ----------
    X : CSR matrix (cells, variable genes)
        Counts at variance 1 for each gene, or plain ones under Kullback–Leibler.
    tpm : CSR matrix (cells, genes)
        All genes, in transcripts per million.
    genes : int array
        Which of all genes are fitted.
    counts : Counts
        The counts, with the names.
    samples : array of str or None
        The sample of each cell.
    beta_loss : str
        The loss.
    """

    X: Any
    tpm: Any
    genes: np.ndarray
    counts: Counts
    samples: np.ndarray | None
    beta_loss: str


def prepare(
    adata: Any,
    layer: str | None,
    n_top_genes: int,
    mask_var: str | None,
    sample_key: str | None,
    beta_loss: str,
) -> Prepared:
    """Find counts and variable genes; leave out cells without counts of these, with a warning."""
    counts = counts_of(adata, layer)
    if others := counts_elsewhere(adata, layer):
        more = "".join(f" or {name!r}" for name in others[1:])
        warnings.warn(
            Message(
                "the values are not whole numbers, and gene programmes are made of counts, which "
                "are in {first}" + more,
                first=Given("layer", others[0]),
            ),
            stacklevel=3,
        )
    everyone = _samples(adata, sample_key, len(counts.all_cells))
    found = variation(per_million(counts.X))
    genes = chosen_genes(adata, counts.of_genes, found, n_top_genes, mask_var)
    has_any = np.asarray(counts.X[:, genes].sum(axis=1)).ravel() > 0
    if not has_any.all():  # the genes stay, as they are those of the other cells
        chosen = np.flatnonzero(counts.of_genes)[genes]
        counts = counts.of(has_any)
        genes = np.flatnonzero(np.isin(np.flatnonzero(counts.of_genes), chosen))
    _warn_of_dropped(counts.dropped)
    X = counts.X[:, genes]
    if not LOSSES[beta_loss].takes_counts:
        X = X.copy()
        variance = moments(X, ddof=1)[1]
        X.data /= np.sqrt(np.where(variance > 0, variance, 1)).astype(X.dtype)[X.indices]
    else:  # in single precision such fits can fail to reach the tolerance at ranks too high
        X = X.astype(np.float64)
    samples = None if everyone is None else everyone[counts.of_cells]
    return Prepared(X, per_million(counts.X), genes, counts, samples, beta_loss)


def _samples(adata: Any, sample_key: str | None, n_cells: int) -> np.ndarray | None:
    """The sample of each cell."""
    if sample_key is None:
        return None
    frame = getattr(adata, "obs", None)
    if frame is None or sample_key not in frame:
        known = ", ".join(map(repr, [] if frame is None else frame.columns)) or "none"
        raise ArgumentError(
            "sample_key", "is no column of adata.obs", value=sample_key, expected=f"one of {known}"
        )
    return np.asarray(frame[sample_key].astype(str), dtype=np.str_)


def _warn_of_dropped(names: np.ndarray) -> None:
    if len(names):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        cells = "cell has" if len(names) == 1 else "cells have"
        warnings.warn(
            f"{len(names)} {cells} no counts of the genes that are fitted, and no usages: "
            + ", ".join(names[:_NAMED]) + more,
            stacklevel=4,
        )  # fmt: skip
