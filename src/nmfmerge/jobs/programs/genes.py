"""Variable genes: those whose counts vary more than is usual at their mean.

Input: expression (cells × genes) at one total for all cells. Output: for each gene its mean, its
Fano factor (variance over mean) and what that would be of a gene without programmes: a²·mean + b²,
for a the least coefficient of variation among the highest genes, and b² the median Fano factor of
ordinary genes. The ratio of both ranks the genes, as in cNMF (Kotliar et al., eLife 2019).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.arguments.values import Whole
from nmfmerge.datasets.base import Dataset
from nmfmerge.inputs.labels import marked

_HIGHEST = 20  # genes that show how much cells differ for technical reasons alone
_ORDINARY = (0.1, 0.9)  # quantiles between which genes are ordinary


@dataclass(frozen=True, eq=False)
class GeneVariation:
    """How much each gene varies.

    Attributes
    ----------
    mean, fano, expected_fano, ratio : arrays (genes,)
        Mean, variance over mean, the same expected at that mean, and the one over the other.
    """

    mean: np.ndarray
    fano: np.ndarray
    expected_fano: np.ndarray

    @property
    def ratio(self) -> np.ndarray:
        """How many times more variable a gene is than expected."""
        return self.fano / self.expected_fano

    def most_variable(self, n: int) -> np.ndarray:
        """The n genes of the highest ratio, in the order of the data."""
        return np.sort(np.argsort(-self.ratio, kind="stable")[:n])


def per_million(X: Any) -> Any:
    """Counts scaled to the same total, a million, in each cell."""
    X = X.astype(np.float64, copy=True)
    totals = np.asarray(X.sum(axis=1)).ravel()
    X.data *= np.repeat(1e6 / totals, np.diff(X.indptr))
    return X


def moments(X: Any, ddof: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each column of a CSR matrix."""
    m, n = X.shape
    values = X.data.astype(np.float64)
    mean = np.bincount(X.indices, values, minlength=n) / m
    stored = np.bincount(X.indices, minlength=n)
    squares = np.bincount(X.indices, (values - mean[X.indices]) ** 2, minlength=n)
    squares += (m - stored) * mean**2  # entries that are not stored
    return mean, squares / max(1, m - ddof)


def variation(X: Any) -> GeneVariation:
    """How much each gene varies in expression, CSR (cells, genes), without genes that are zero."""
    mean, variance = moments(X)
    fano = variance / mean
    highest = np.argsort(-mean, kind="stable")[:_HIGHEST]
    a2 = float((variance[highest] / mean[highest] ** 2).min())
    ordinary = np.ones(len(mean), dtype=bool)
    for values in (mean, fano):
        low, high = np.quantile(values, _ORDINARY)
        ordinary &= (values > low) & (values < high)
    b2 = float(np.median(fano[ordinary] if ordinary.any() else fano))
    expected = a2 * mean + b2
    return GeneVariation(mean, fano, np.where(expected > 0, expected, 1.0))


def chosen_genes(
    adata: Any, of_genes: np.ndarray, found: GeneVariation, n: int, mask_var: str | None
) -> np.ndarray:
    """Which genes are fitted: the most variable ones, or those that a column of var marks.

    Parameters
    ----------
    adata : AnnData or Dataset
        Where ``mask_var`` is.
    of_genes : bool array
        Which of its genes have counts.
    found : GeneVariation
        Of the genes that have counts.
    n : int
        Number of genes.
    mask_var : str or None
        Column of ``adata.var`` that is true for the genes to fit; of ``adata.raw.var`` if these
        are the genes.

    Returns
    -------
    genes : int array
        Indices among those that have counts.
    """
    if mask_var is None:
        return found.most_variable(Whole(2).check("n_top_genes", n))
    if isinstance(adata, Dataset):
        raise ArgumentError("mask_var", "is for an AnnData", value=mask_var, fix="leave it out")
    mask = marked(adata.var, mask_var)
    if len(mask) != len(of_genes):  # .raw has other genes
        mask = marked(adata.raw.var, mask_var)
    genes = np.flatnonzero(mask[of_genes])
    if len(genes) < 2:
        raise ArgumentError("mask_var", f"marks {len(genes)} genes with counts", value=mask_var,
                            expected="at least two")  # fmt: skip
    return genes
