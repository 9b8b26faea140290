"""How much of the fit each component carries."""

import numpy as np

from nmfmerge.kernels import gram64
from nmfmerge.result import Factorization


def shares(result: Factorization) -> np.ndarray:
    """Share of each component in the fit, in percent; they add up to 100.

    The share of component k is ⟨w_k h_k, WH⟩ / ‖WH‖²: its own square and half of what it has in
    common with every other component. All zero where WH is zero.

    Parameters
    ----------
    result : Factorization
        The components.

    Returns
    -------
    share : array (r,)
        Percent, in the order of the columns of W.
    """
    products = gram_products(result)
    total = float(products.sum())
    return 100 * products.sum(axis=1) / total if total > 0 else np.zeros(len(products))


def norm2(result: Factorization) -> float:
    """‖WH‖²."""
    return float(gram_products(result).sum())


def gram_products(result: Factorization) -> np.ndarray:
    """Inner products ⟨w_i h_i, w_j h_j⟩ of all pairs of components, r × r."""
    if result.n_components == 0:
        return np.zeros((0, 0))
    return gram64(result.W.T) * gram64(result.H)
