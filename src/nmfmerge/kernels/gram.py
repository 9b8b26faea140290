"""Grams in double precision, whatever the precision of the factor."""

import numpy as np

_CHUNK = 8192


def gram64(F: np.ndarray) -> np.ndarray:
    """F Fᵀ in float64, for a component-major F."""
    if F.dtype == np.float64:
        return F @ F.T
    G = np.zeros((len(F), len(F)))
    for start in range(0, F.shape[1], _CHUNK):
        chunk = F[:, start : start + _CHUNK].astype(np.float64)
        G += chunk @ chunk.T
    return G
