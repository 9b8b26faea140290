"""Programmes in all genes: from usages by cells to transcripts per million and to scores.

The tpm spectra are the nonnegative regression of the expression of each gene on the usages; the
scores are the coefficients of the ordinary one, with each gene at mean 0 and variance 1. A gene
with a high score marks its programme (Kotliar et al., eLife 2019).
"""

from typing import Any

import numpy as np

from nmfmerge.api import transform
from nmfmerge.jobs.programs.genes import moments
from nmfmerge.losses import LOSSES


def parts(usages: np.ndarray) -> np.ndarray:
    """Usages that add up to one in each cell; zero in a cell that uses nothing."""
    totals = usages.sum(axis=1, keepdims=True)
    return usages / np.where(totals > 0, totals, 1)


def tpm_spectra(tpm: Any, usages: np.ndarray, beta_loss: str) -> np.ndarray:
    """Programmes × genes in transcripts per million, given usages that add up to one."""
    H = np.ascontiguousarray(usages.T, dtype=np.float64)
    return np.ascontiguousarray(transform(tpm.T, H, beta_loss=beta_loss).T)


def score_spectra(tpm: Any, usages: np.ndarray) -> np.ndarray:
    """Programmes × genes: least-squares coefficients of standardised expression on the usages.

    By the normal equations, so that the expression stays sparse.
    """
    mean, variance = moments(tpm)
    scale = np.sqrt(np.where(variance > 0, variance, 1.0))
    U = usages.astype(np.float64)
    UtT = np.asarray(tpm.T @ U).T - U.sum(axis=0)[:, None] * mean
    return np.asarray(np.linalg.lstsq(U.T @ U, UtT / scale, rcond=None)[0])


def usages_of(tpm: Any, spectra: np.ndarray, beta_loss: str) -> np.ndarray:
    """Usages of programmes, refitted to the expression of the variable genes.

    For a loss that does not take counts as they are, each gene is scaled to variance 1 first.
    """
    if not LOSSES[beta_loss].takes_counts:
        scale = np.sqrt(moments(tpm, ddof=1)[1])
        scale = 1 / np.where(scale > 0, scale, 1.0)
        tpm = tpm.copy()
        tpm.data *= scale[tpm.indices]
        spectra = spectra * scale
    return np.asarray(transform(tpm, np.ascontiguousarray(spectra), beta_loss=beta_loss))
