"""The squared error ½‖X − WH‖²: the loss of the paper.

All that it needs of X beside ‖X‖² are cross products and Grams (METHOD.md, sections 1, 4 and 5).
"""

from collections.abc import Sequence

import numpy as np

from nmfmerge.backends.numba import gram64, of_each
from nmfmerge.losses.base import BatchView, Form, Loss, Recovered
from nmfmerge.losses.frobenius_merging import GramComponents, Leaves
from nmfmerge.losses.frobenius_previews import Moments
from nmfmerge.losses.frobenius_recovery import recover_round
from nmfmerge.losses.greedy import Order
from nmfmerge.losses.merging import MergePlan, MergeTree, merge_plan, merge_tree
from nmfmerge.losses.penalties import Penalty
from nmfmerge.losses.previews import Previews
from nmfmerge.losses.words import Words
from nmfmerge.matrices import Array, Check, DataMatrix
from nmfmerge.matrices.weights import weights

_COLUMNS = 1 << 20  # of a factor that are copied at once


class Frobenius(Loss):
    """Half the squared Frobenius norm of X − WH."""

    name = "frobenius"
    degree = 2
    forms = frozenset({Form.GRAMS})
    words = Words(
        error_of="‖X‖²",
        headline=(
            "fit the data with an error of <strong>{error}</strong>: {kept} of the sum of squares "
            "is accounted for. (The error is ‖X − WH‖² in percent of ‖X‖².)"
        ),
        norm="‖X − WH‖",
        whole="‖WH‖²",
        share_of="the sum of squares of WH",
        penalty="The penalty is the square of what a merge changed in WH.",
        change="% of its norm",
        strengths="generalized singular values",
        strength=(
            "How many times more X has than the first solution in the direction of each "
            "recovered component. Near 1, nothing was missing there."
        ),
        level="fitting error",
    )
    judges_ranks = True
    calibrated = True
    equal_strength = 1.0
    missing_strength = 10.0  # WH has a tenth of what X has

    def size(self, matrix: DataMatrix) -> float:
        """½‖X‖²."""
        return 0.5 * matrix.norm2

    def constant(self, batch: BatchView) -> float:
        """Twice what `value` adds to the terms that depend on the factors.

        L2 penalties are on the diagonals of both Grams, whose product has one term too many.
        """
        penalty = batch.problem.penalty
        return batch.problem.matrix.norm2 - batch.H.shape[1] * penalty.l2_W * penalty.l2_H

    def value(self, batch: BatchView) -> Array:
        """½‖X‖² − ⟨F, C⟩ + ½⟨WᵀW, HHᵀ⟩."""
        fit = batch.cheapest_fit()
        model = batch.problem.kernels.inner_products(batch.gram("W"), batch.gram("H"))
        return (0.5 * self.constant(batch) - fit + 0.5 * model).clip(min=0.0)

    def exact_values(self, matrix: DataMatrix, Wt: Array, H: Array) -> np.ndarray:
        """Half the squared residual, summed over blocks of X."""
        return 0.5 * np.array(matrix.errors2(Wt, H))

    def shares(self, matrix: DataMatrix, Wt: Array, H: Array) -> np.ndarray:
        """⟨w_k h_k, WH⟩ of each component, as in `metrics.shares`."""
        k = matrix.kernels
        WtW, HHt = (k.to_host(k.gram64(F)).astype(np.float64, copy=False) for F in (Wt, H))
        return np.asarray((WtW * HHt).sum(axis=2))

    def merge_plans(
        self, matrix: DataMatrix, Wt: Array, H: Array, n_components: int, held: np.ndarray | None
    ) -> Sequence[MergePlan]:
        """Optimal pairwise merges, from the Grams alone."""
        k = matrix.kernels
        grams = (k.to_host(k.gram64(F)) for F in (Wt, H))
        return of_each(
            lambda pair: merge_plan(GramComponents(pair[0], pair[1], held), n_components),
            list(zip(*grams, strict=True)),
        )

    def merged(
        self,
        Wt: np.ndarray,
        H: np.ndarray,
        n_components: int,
        max_penalty: float = np.inf,
        order: Order | None = None,
        held: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, MergeTree]:
        """Optimal pairwise merges of factors of any size; nothing else of X would change them."""
        leaves = Leaves(Wt, H)
        components = leaves.components(held)
        tree = merge_tree(components, n_components, max_penalty, order)
        return *leaves.merged(components), tree

    def merge_percent(self, penalty: float, matrix: DataMatrix) -> float:
        """Penalties are squared distances, twice the loss."""
        return self.percent(0.5 * penalty, matrix)

    def previews(self, matrix: DataMatrix, Wt: np.ndarray, H: np.ndarray) -> Previews:
        """Merges and removals are known from r × r numbers."""
        return Moments.of(matrix, Wt, H)

    def recover(
        self, matrix: DataMatrix, Wt: Array, H: Array, k: int, check: Check, held: np.ndarray
    ) -> Recovered:
        """Recover by the generalized SVD of X and WH."""
        return recover_round(matrix, Wt, H, k, check, held)

    def recoverable(self, matrix: DataMatrix, r: int, check: Check) -> int:
        """One component for each of the r leading singular triplets of X that is not rounding."""
        return matrix.svd(r, check).rank(matrix.shape)

    def weights(self, matrix: DataMatrix, H: np.ndarray, penalty: Penalty) -> Array:
        """Nonnegative least squares, each row of X by an active set."""
        return weights(matrix, H, penalty.l1_W, penalty.l2_W)

    def whole(self, W: np.ndarray, H: np.ndarray) -> float:
        """‖WH‖²; infinite where that is too large for a number."""
        with np.errstate(over="ignore"):
            return float(np.vdot(gram64(W.T), gram64(H))) if len(H) else 0.0

    def percent_shares(self, W: np.ndarray, H: np.ndarray) -> np.ndarray:
        """⟨w_k h_k, WH⟩ / ‖WH‖² of each component."""
        sizes = [F.max(axis=1, initial=0).astype(np.float64) for F in (W.T, H)]
        size = sizes[0] * sizes[1]
        if not size.any():
            return np.zeros(len(H))
        size /= size.max()  # so that no square is too large or too small
        products = np.outer(size, size) * scaled_gram(W.T, sizes[0]) * scaled_gram(H, sizes[1])
        return np.asarray(100 * products.sum(axis=1) / products.sum())

    def level(self, fitting_error: float, objective: float, whole: float) -> float:
        """The fitting error itself: ‖WH‖² is nearly ‖X‖²."""
        return fitting_error

    def kkt_residual(self, batch: BatchView) -> np.ndarray:
        """How far each start is from a stationary point, relative to X; see `metrics`."""
        total = np.zeros(len(batch.H))
        for subproblem in (batch.subproblem("W"), batch.subproblem("H")):
            F, G, C = map(batch.problem.kernels.to_host, subproblem)
            curvature = np.einsum("stt->st", G).astype(np.float64)
            gradient = (G @ F - C).astype(np.float64)
            safe = np.where(curvature > 0, curvature, 1)[:, :, None]
            step = F - np.maximum(0, F - gradient / safe)
            total += np.sum(curvature * np.square(step).sum(axis=2), axis=1)
        return np.sqrt(total / (batch.problem.matrix.norm2 or 1.0))


def scaled_gram(F: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """F Fᵀ of rows divided by their sizes, some columns at a time: F may be larger than memory."""
    scales = np.where(sizes > 0, sizes, 1)[:, None]
    starts = range(0, F.shape[1], _COLUMNS)
    parts = (F[:, i : i + _COLUMNS].astype(np.float64) / scales for i in starts)
    return np.sum([gram64(part) for part in parts], axis=0)


FROBENIUS = Frobenius()
