"""The generalised Kullback–Leibler divergence as a loss: for counts, intensities and spectrograms.

Fitting errors are in percent of the deviance of the margins, D(X‖r cᵀ/N).
"""

from collections.abc import Sequence

import numpy as np

from nmfmerge.backends.numba import of_each
from nmfmerge.losses.base import BatchView, Entrywise, Factors, Form, Loss, Recovered
from nmfmerge.losses.greedy import Order
from nmfmerge.losses.kl_divergence import Divergence
from nmfmerge.losses.kl_merging import MassComponents
from nmfmerge.losses.kl_previews import Rises
from nmfmerge.losses.kl_recovery import kl_recover
from nmfmerge.losses.merging import MergePlan, MergeTree, merge_plan
from nmfmerge.losses.penalties import Penalty
from nmfmerge.losses.previews import Previews
from nmfmerge.losses.weighted_divergence import WeightedDivergence
from nmfmerge.losses.words import Words
from nmfmerge.matrices import Array, Check, DataMatrix, wrap
from nmfmerge.matrices.offers import Need

_FIRST_UPDATES = 10  # multiplicative ones, of a random start
_SWEEPS = 20  # for known components, between two looks at the step
_ROUNDS = 500
_LEAST_FIT = 1e-3  # of the mean of X: a smaller WH would make a residual too large


def divergence_of(matrix: DataMatrix) -> Divergence:
    """The divergence of a matrix, whose lines and sums are computed once and freed with it."""
    return matrix.derived(Divergence if matrix.weights is None else WeightedDivergence)


class KullbackLeibler(Loss):
    """D(X‖WH) = Σ x log(x/y) − x + y with y = WH."""

    name = "kullback-leibler"
    degree = 1
    takes_counts = True
    judges_ranks = True
    looseness = 0.1  # on counts, a fit to 1e-2 can be far from its end
    forms = frozenset({Form.ENTRIES})
    needs = frozenset({Need.LINES})
    abbreviation = "kl"
    words = Words(
        error_of="the deviance of the margins",
        headline=(
            "explain <strong>{kept}</strong> of the deviance. (The error, {error}, is the "
            "Kullback–Leibler divergence of the data from the fit in percent of the divergence "
            "from the product of their row and column sums.)"
        ),
        norm="√(2·D(X‖WH))",
        whole="the sum of WH",
        share_of="the sum of WH",
        penalty=(
            "The penalty is the mutual information of row and column in the pair, times its sum: "
            "the divergence of the merged component from the two."
        ),
        change="root of the penalty, %",
        strengths="strengths of the recovered components",
        strength=(
            "Singular value of the score, the relative deviation of X from the first solution "
            "weighted by the roots of row and column sums, for each recovered component; relative "
            "to the sum of X. At 0, nothing was missing there."
        ),
        level="divergence of X from WH",
    )

    def entrywise(self, matrix: DataMatrix) -> Entrywise:
        """The passes over X, as solvers ask for them."""
        return divergence_of(matrix)

    def size(self, matrix: DataMatrix) -> float:
        """D(X‖r cᵀ/N), what the best fit of rank 1 leaves."""
        return divergence_of(matrix).size

    def size_between(self, column_sums: np.ndarray) -> float:
        """The deviance of the column sums of the chunks: deviances of parts and between add up."""
        return Divergence(wrap(column_sums)).size

    def value(self, batch: BatchView) -> Array:
        """D of each start, with the penalty, in one pass over X."""
        divergence = divergence_of(batch.problem.matrix)
        value = divergence.value(batch.Wt, batch.H).clip(min=0.0)
        return value + batch.problem.penalty.value(batch.Wt, batch.H, batch.problem.kernels)

    def exact_values(self, matrix: DataMatrix, Wt: Array, H: Array) -> np.ndarray:
        """D of each start, summed in parts that do not cancel."""
        return divergence_of(matrix).exact_values(Wt, H)

    def percent(self, value: float, matrix: DataMatrix) -> float:
        """Fitting error in percent; margins that leave only rounding errors count as a fit."""
        divergence = divergence_of(matrix)
        noise = float(np.finfo(matrix.dtype).eps) * divergence.total
        if divergence.size > noise:
            return 100.0 * max(0.0, value) / divergence.size
        return 0.0 if value <= 16 * noise else float("inf")

    def shares(self, matrix: DataMatrix, Wt: Array, H: Array) -> np.ndarray:
        """The sum of each component."""
        return divergence_of(matrix).masses(Wt, H)

    def kkt_residual(self, batch: BatchView) -> np.ndarray:
        """The share of the mass that EM steps of W and H would move, and pull on zeros."""
        divergence = divergence_of(batch.problem.matrix)
        return np.array(
            [divergence.kkt_residual(Wt, H) for Wt, H in zip(batch.Wt, batch.H, strict=True)]
        )

    def prepared(
        self, matrix: DataMatrix, starts: Sequence[Factors], check: Check | None = None
    ) -> Sequence[Factors]:
        """Multiplicative updates first: coordinate descent would commit itself to zeros early."""
        divergence, k = divergence_of(matrix), matrix.kernels
        placed = [matrix.place_pair(*start) for start in starts]
        Wt, H = (k.copy(k.stack(factors)) for factors in zip(*placed, strict=True))
        for _ in range(_FIRST_UPDATES):
            if check is not None:
                check()
            divergence.mu_step_("W", Wt, H)
            divergence.mu_step_("H", H, Wt)
        return list(zip(k.to_host(Wt), k.to_host(H), strict=True))

    def residual(self, X: np.ndarray, WH: np.ndarray) -> np.ndarray:
        """Pearson's residual (X − WH)/√WH."""
        least = _LEAST_FIT * X.mean() or 1.0
        return np.asarray((X - WH) / np.sqrt(np.maximum(WH, least)))

    def held_out_error(
        self, x: np.ndarray, m: np.ndarray, y: np.ndarray, margins: np.ndarray
    ) -> float:
        """The deviance in percent of that from the margins; no fit is below a thousandth of x̄."""
        from scipy.special import kl_div

        least = _LEAST_FIT * float(x.mean()) or 1.0
        mine, theirs = (float(np.vdot(m, kl_div(x, np.maximum(f, least)))) for f in (y, margins))
        return 100 * mine / (theirs or 1.0)

    def merge_plans(
        self, matrix: DataMatrix, Wt: Array, H: Array, n_components: int, held: np.ndarray | None
    ) -> Sequence[MergePlan]:
        """Pairs of least mutual information, and of these the one of least exact rise."""
        rises, to_host = divergence_of(matrix).rises, matrix.kernels.to_host
        return of_each(
            lambda pair: merge_plan(MassComponents(*pair, held, rises), n_components),
            list(zip(to_host(Wt), to_host(H), strict=True)),
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
        """Pairs of least mutual information, as exact rises need X."""
        plan = merge_plan(MassComponents(Wt, H, held), n_components, max_penalty, order)
        A, B = plan.A.astype(Wt.dtype), plan.B.astype(Wt.dtype)
        return A @ Wt, B @ H, plan.tree

    def merge_percent(self, penalty: float, matrix: DataMatrix) -> float:
        """Penalties are in units of the loss."""
        return self.percent(penalty, matrix)

    def previews(self, matrix: DataMatrix, Wt: np.ndarray, H: np.ndarray) -> Previews:
        """The rises by all merges are known from one pass over X."""
        return Rises.of(divergence_of(matrix), Wt, H)

    def whole(self, W: np.ndarray, H: np.ndarray) -> float:
        """The sum of WH."""
        return float(_masses(W, H).sum())

    def percent_shares(self, W: np.ndarray, H: np.ndarray) -> np.ndarray:
        """The sum of each component as a share of that of WH."""
        masses = _masses(W, H)
        top = masses.max(initial=0)
        parts = masses / top if top > 0 else masses
        return 100 * parts / (parts.sum() or 1.0)

    def level(self, fitting_error: float, objective: float, whole: float) -> float:
        """D(X‖WH) in percent of the sum of WH."""
        return 100 * objective / (whole or 1.0)

    def recover(
        self, matrix: DataMatrix, Wt: Array, H: Array, k: int, check: Check, held: np.ndarray
    ) -> Recovered:
        """Recover by the score; strengths are its singular values, relative to the sum of X."""
        divergence = divergence_of(matrix)
        before = divergence.exact_values(Wt, H)
        Wt, H, sizes = kl_recover(divergence, Wt, H, k, check, held)
        strengths = sizes / (divergence.total or 1.0)
        return Recovered(Wt, H, strengths, before - divergence.exact_values(Wt, H))

    def recoverable(self, matrix: DataMatrix, r: int, check: Check) -> int:
        """The score has as many singular pairs as X has rows or columns."""
        return min(matrix.shape)

    def weights(self, matrix: DataMatrix, H: np.ndarray, penalty: Penalty) -> Array:
        """Poisson regression of each row of X by coordinate descent, until no weight moves."""
        divergence, k = divergence_of(matrix), matrix.kernels
        H = np.ascontiguousarray(H / matrix.unit, dtype=matrix.dtype)
        level = divergence.margins[0] / (H.sum(dtype=np.float64) or 1.0)
        Wt = k.stack([matrix.place(np.tile(level, (len(H), 1)), "W")])
        fixed = k.stack([matrix.place(H, "H")])
        tol = float(np.finfo(matrix.dtype).eps) ** 0.75
        for _ in range(_ROUNDS):
            divergence.sweep_("W", Wt, fixed, n_sweeps=_SWEEPS, l1=penalty.l1_W, l2=penalty.l2_W)
            moved, total, _ = divergence.sweep_("W", Wt, fixed, l1=penalty.l1_W, l2=penalty.l2_W)
            if k.to_host(moved <= tol * tol * total).all():
                break
        return matrix.returned(Wt[0]).T


def _masses(W: np.ndarray, H: np.ndarray) -> np.ndarray:
    """The sum of each component."""
    return np.asarray(W.sum(axis=0, dtype=np.float64) * H.sum(axis=1, dtype=np.float64))


KULLBACK_LEIBLER = KullbackLeibler()
