"""Components that X has and WH lacks, under Kullback–Leibler.

The score ``D_r^{½} (X/WH − 11ᵀ) D_c^{½}``, D_r and D_c the sums of rows and columns of X, says what
the fit misses in the metric of the loss. Its leading singular pairs, made nonnegative as NNDSVD
makes them and scaled back, get a tenth of the mass of an average component; a few EM steps on the
scales of all components then settle how much each explains.
"""

import numpy as np

from nmfmerge.losses.kl_divergence import Divergence
from nmfmerge.matrices import Array, Check
from nmfmerge.matrices.pairs import nonnegative_pairs
from nmfmerge.matrices.svd import TruncatedSVD, truncated_svd

_MASS = 0.1  # of a new component, relative to N/r
_EM_STEPS = 5


def kl_recover(
    divergence: Divergence,
    Wt: Array,
    H: Array,
    k: int,
    check: Check | None = None,
    held: np.ndarray | None = None,
) -> tuple[Array, Array, np.ndarray]:
    """Add ``k`` components to each start of a batch.

    Parameters
    ----------
    divergence : Divergence
        D of X, with its lines and margins.
    Wt, H : arrays (n_starts, r, m) and (n_starts, r, n)
        Component-major factors; not changed.
    k : int
        How many components to add.
    check : callable, optional
        Called now and then; may raise to stop.
    held : bool array (r,), optional
        Components that are not rescaled.

    Returns
    -------
    Wt, H : arrays (n_starts, r + k, m) and (n_starts, r + k, n)
        The components that came in, rescaled, then the new ones.
    values : float64 array (n_starts, k)
        Singular values of the score.
    """
    kernels = divergence.kernels
    each = [_new(divergence, *pair, k, check) for pair in zip(Wt, H, strict=True)]
    more = [np.stack([start[i] for start in each]) for i in range(3)]
    Wt, H = (
        kernels.joined(F, kernels.from_host(new, F)) for F, new in zip((Wt, H), more, strict=False)
    )
    free = np.ones(H.shape[1], dtype=bool)
    if held is not None:
        free[: len(held)] = ~held
    for _ in range(_EM_STEPS):
        if check is not None:
            check()
        masses = kernels.to_host(divergence.observed_sizes(Wt, H))
        scales = np.divide(
            divergence.explained(Wt, H), masses, out=np.ones_like(masses), where=masses > 0
        )
        Wt = kernels.scaled(Wt, np.where(free, scales, 1))
    return Wt, H, more[2]


def _new(
    divergence: Divergence, Wt: Array, H: Array, k: int, check: Check | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The new components of one start, and their singular values; on the host."""
    svd = score_svd(divergence, Wt, H, k, check)
    w_new, h_new = nonnegative_pairs(svd.Ut, svd.Vt, np.ones(k))
    w_new, h_new = (
        F * np.sqrt(sums).astype(F.dtype)
        for F, sums in zip((w_new, h_new), divergence.margins, strict=True)
    )
    sizes = [F.sum(axis=1, dtype=np.float64) for F in (w_new, h_new)]
    mass = sizes[0] * sizes[1]
    wanted = np.sqrt(_MASS * divergence.total / len(H))
    present = (mass > 0) & (svd.s > 0)
    w_new, h_new = (
        F * np.divide(wanted, size, out=np.zeros(k), where=present)[:, None].astype(F.dtype)
        for F, size in zip((w_new, h_new), sizes, strict=True)
    )
    return w_new, h_new, svd.s.astype(np.float64)


def score_svd(
    divergence: Divergence, Wt: Array, H: Array, k: int, check: Check | None = None
) -> TruncatedSVD:
    """Leading ``k`` singular triplets of D_r^{½} (X/WH − 11ᵀ) D_c^{½}, times the weights of X."""
    ratios = divergence.ratios(Wt, H)
    HXt, WtX = ratios.products_on_host()
    rows, columns = (np.sqrt(sums).astype(ratios.dtype) for sums in divergence.margins)

    def from_columns(F: np.ndarray, out: np.ndarray) -> np.ndarray:
        F = F * columns
        HXt(F, out)
        out -= divergence.sums("W", F)
        out *= rows
        return out

    def from_rows(F: np.ndarray, out: np.ndarray) -> np.ndarray:
        F = F * rows
        WtX(F, out)
        out -= divergence.sums("H", F)
        out *= columns
        return out

    return truncated_svd(from_columns, from_rows, ratios.shape, ratios.dtype, k, check=check)
