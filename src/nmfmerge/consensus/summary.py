"""From the fits of a rank to its consensus: match, leave outliers out, take medians, refit.

Input: the fits, and X. Output: a `RankConsensus`.
"""

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from nmfmerge.consensus.cluster import Clusters, cluster
from nmfmerge.consensus.fit import Fit, Method
from nmfmerge.inputs import check
from nmfmerge.losses import Problem
from nmfmerge.matrices import DataMatrix
from nmfmerge.method.assemble import assemble
from nmfmerge.ranks.residual import ResidualStructure
from nmfmerge.results.consensus import RankConsensus
from nmfmerge.results.factorization import Factorization, Stage
from nmfmerge.solvers.history import StageName, Status

_BAND = (5, 50, 95)  # percentiles
_KEPT = 2**29  # bytes of components of all fits at one rank, up to which they are kept
_TOL = 1e-3  # of the fit that the rank is judged by, as in `rank_path`


class Summary:
    """Makes the consensus of each rank of one matrix."""

    def __init__(self, data: DataMatrix, method: Method, threshold: float) -> None:
        self.data, self.method, self.threshold = data, method, threshold
        self._structure = ResidualStructure(data, method.loss)
        self._transposed: DataMatrix | None = None

    def of(self, fits: Sequence[Fit], judge: bool = True) -> RankConsensus:
        """The consensus of fits of one rank; unless it is to ``judge``, without a fit of X."""
        began = perf_counter()
        components = np.stack([fit.components for fit in fits])
        clusters = cluster(components, self.threshold)
        low, medians, high = _percentiles(components, clusters)
        sums = medians.sum(axis=1, keepdims=True)
        medians = np.divide(medians, sums, out=medians.copy(), where=sums > 0)
        result, order = self._refitted(medians, began)
        factor = result.W.T if self.method.side == "W" else result.H
        scale = np.divide(factor.sum(axis=1, keepdims=True), sums[order], where=sums[order] > 0,
                          out=np.zeros_like(sums))  # fmt: skip
        new = np.argsort(order)  # the place of each cluster
        matches = new[clusters.matches]
        judged = self._judged(result) if judge else {}
        return RankConsensus(
            factorization=result,
            side=self.method.side,
            low=low[order] * scale,
            high=high[order] * scale,
            silhouettes=clusters.silhouettes[order],
            likeness=_mean_by(clusters.cosines, matches),
            density=clusters.density,
            labels=np.where(clusters.outliers, -1, matches),
            matches=matches,
            cosines=clusters.cosines,
            components=components if components.nbytes <= _KEPT else None,
            errors=np.array([fit.error for fit in fits]),
            n_iter=np.array([fit.n_iter for fit in fits]),
            density_threshold=self.threshold,
            **judged,
        )

    def _refitted(self, F: np.ndarray, began: float) -> tuple[Factorization, np.ndarray]:
        """The components with their weights in X, by share; and which component each is."""
        if self.method.side == "H":
            W, H = Problem(self.data, self.method.loss).weights(F), F
        else:
            if self._transposed is None:
                self._transposed = self.data.transposed()
            W, H = F.T, Problem(self._transposed, self.method.loss).weights(F).T
        problem = self.method.problem(self.data)
        Wt, H = check.check_fit(np.asarray(W), np.asarray(H), self.data, len(F))
        order = np.argsort(-problem.shares(Wt[None], H[None])[0], kind="stable")
        Wt, H = np.ascontiguousarray(Wt[order]), np.ascontiguousarray(H[order])
        loss = float(problem.exact_losses(Wt[None], H[None])[0])
        seconds = perf_counter() - began
        stage = Stage(
            StageName.START, len(F), 0, seconds, problem.percent(loss), Status.DONE
        )  # fmt: skip
        result = assemble(
            problem, Wt, H, loss, stages=(stage,), status=Status.DONE, seconds=seconds
        )
        return result, order

    def _judged(self, result: Factorization) -> dict[str, float]:
        """Evidence for the rank, from a fit of X that begins with the consensus."""
        problem, r = self.method.problem(self.data), result.n_components
        Wt, H = self.method.polished(self.data, result.W, result.H, _TOL)
        penalty = 0.0
        if r > 1:
            plan = problem.merge_plans(Wt[None], H[None], r - 1)[0]
            penalty = problem.merge_percent(float(plan.tree.penalties[-1]))
        loss = float(problem.exact_losses(Wt[None], H[None])[0])
        return {
            "penalty": penalty,
            "structure": self._structure.structure(Wt, H),
            "fitted_error": problem.percent(loss),
        }


def _percentiles(
    components: np.ndarray, clusters: Clusters
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Low, median and high of each cluster; where the median is zero, the mean in its place."""
    r = components.shape[1]
    found = np.empty((3, r, components.shape[2]), components.dtype)
    for k in range(r):
        members = components[clusters.members(k)]
        found[:, k] = np.percentile(members, _BAND, axis=0)
        if not found[1, k].any():
            found[1, k] = members.mean(axis=0)
    return found[0], found[1], np.maximum(found[2], found[1])


def _mean_by(values: np.ndarray, matches: np.ndarray) -> np.ndarray:
    """Mean of the values of each cluster."""
    return np.array([values[matches == k].mean() for k in range(values.shape[1])])
