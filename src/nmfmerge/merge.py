"""Optimal pairwise merge of components, on Grams alone (the paper's section on pairwise merge).

Comes in: W and H. Goes out: W and H with fewer components, and the record of what was joined.
Only the r × r Grams WᵀW and HHᵀ are looked at: the Gram rows of a merged component are linear
combinations of its parents' rows, and the merged factors are one product at the end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from nmfmerge.kernels import gram64, merge_cheapest_

_LARGEST_EXPONENT = 100  # of two, of a factor that is used as it is

Order = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def merge(
    Wt: np.ndarray,
    H: np.ndarray,
    n_components: int,
    max_penalty: float = np.inf,
    order: Order | None = None,
    held: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, "MergeTree"]:
    """Join the pair of components that costs least, again and again.

    Parameters
    ----------
    Wt, H : arrays (r, m) and (r, n)
        Component-major factors; not changed. They may be of any size.
    n_components, max_penalty, order, held
        As in `merge_plan`.

    Returns
    -------
    Wt, H : arrays (n_components, m) and (n_components, n)
        Components not merged, as they were and in their order, then the merged ones, whose norm
        in W is the geometric mean of their parents'.
    tree : MergeTree
    """
    leaves = _Leaves(Wt, H)
    state = leaves.state(held)
    tree = _join_all(state, n_components, max_penalty, order)
    return *leaves.merged(state), tree


@dataclass(frozen=True, eq=False)
class MergePlan:
    """What merging comes to: the merged factors are ``A @ Wt`` and ``B @ H``."""

    A: np.ndarray
    B: np.ndarray
    tree: "MergeTree"


def merge_plan(
    WtW: np.ndarray,
    HHt: np.ndarray,
    n_components: int,
    max_penalty: float = np.inf,
    order: Order | None = None,
    held: np.ndarray | None = None,
) -> MergePlan:
    """Plan merges from the Grams alone: each time the pair of components that costs least.

    Parameters
    ----------
    WtW, HHt : float64 arrays (r, r)
        Grams of the factors.
    n_components : int
        Stop at this number of components.
    max_penalty : float
        Stop before a merge that costs more than this.
    order : callable, optional
        ``order(penalty, h2_p, h2_q)``, arrays in, array out: the pair with the least value is
        merged next; h2 are the squared norms of the rows of H when columns of W have unit norm.
        A pair of infinite value is never merged. Default: the penalty itself.
    held : bool array (r,), optional
        Components that are never merged.
    """
    state = _MergeState(WtW, HHt, held=held)
    tree = _join_all(state, n_components, max_penalty, order)
    leaves, merged = state.slots()
    r = len(HHt)
    norm = state.w_norm[merged, None]
    unit = np.eye(r)[leaves]
    A = np.concatenate([unit, state.A[merged] * norm])
    B = np.concatenate([unit, state.B[merged] / norm])
    return MergePlan(A, B, tree)


def _join_all(
    state: "_MergeState", n_components: int, max_penalty: float, order: Order | None
) -> "MergeTree":
    r = len(state.C)
    if order is None and max_penalty == np.inf:
        costs = state.join_cheapest(r - n_components)
        return MergeTree(r, np.array(state.pairs), state.in_full(costs))
    penalty, rank = state.pair_tables(order)
    penalties: list[float] = []
    while r - len(penalties) > n_components:
        p, q = divmod(int(np.argmin(rank)), r)
        cost = float(state.in_full(penalty[p, q]))
        if cost > max_penalty or rank[p, q] == np.inf:
            break
        penalties.append(cost)
        state.join(p, q)
        state.refresh(penalty, rank, p, q, order)
    return MergeTree(r, np.array(state.pairs), np.array(penalties))


def pair_penalty(c: np.ndarray, a: np.ndarray, d: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Penalty of merging pairs, eq. (minimum_P), without cancellation.

    Parameters
    ----------
    c, g : arrays
        w_pᵀw_q for unit columns of W, and h_pᵀh_q.
    a, d : arrays
        ‖h_p‖² and ‖h_q‖².

    Returns
    -------
    penalty : array
        λ_min of eq. (eigen_values), the second squared singular value of the pair.
    """
    b = np.sqrt(((a - d) / 2) ** 2 + (g + c * a) * (g + c * d))
    lam_max = (a + d) / 2 + c * g + b
    delta = (1 - c * c) * (a * d - g * g)
    safe = np.where(lam_max > 0, lam_max, 1)
    return np.maximum(np.where(lam_max > 0, delta / safe, 0), 0)


def merge_weights(
    c: np.ndarray, a: np.ndarray, d: np.ndarray, g: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (α, β) of the merged column ``α w_p + β w_q``, eq. (u_vec), always finite.

    Numbers, or arrays of pairs. The paper's ξ divides by zero for a pair disjoint in both factors;
    this form does not.
    """
    b = np.sqrt(((a - d) / 2) ** 2 + (g + c * a) * (g + c * d))
    first = np.greater_equal(a, d)
    alpha = np.where(first, a - d + 2 * b, 2 * (g + c * a))
    beta = np.where(first, 2 * (g + c * d), d - a + 2 * b)
    size = np.maximum(alpha, beta)
    alpha, beta = np.where(size > 0, alpha, 1), np.where(size > 0, beta, 0)
    size = np.where(size > 0, size, 1)
    alpha, beta = alpha / size, beta / size  # squares of tiny numbers would vanish
    norm = np.sqrt(alpha * alpha + 2 * c * alpha * beta + beta * beta)
    return alpha / norm, beta / norm


class _MergeState:
    """Components in r slots: their Grams, and their weights on the leaves.

    A merged component takes the slot of its first parent; the second parent's slot is empty
    from then on. ``C`` is the Gram of W with unit columns, ``D`` that of H with the scale, in
    ``unit``s of ``4**exponent``; slot p holds the component ``A[p] @ Wt``, ``B[p] @ H``, to be
    scaled to ``w_norm``. The Grams may be of factors whose rows were divided by powers of two,
    whose exponents are given.
    """

    def __init__(
        self,
        WtW: np.ndarray,
        HHt: np.ndarray,
        w_exponent: np.ndarray | None = None,
        h_exponent: np.ndarray | None = None,
        held: np.ndarray | None = None,
    ) -> None:
        C, D = WtW, HHt
        none = np.zeros(len(C), dtype=np.int64)
        self.w_exponent = none if w_exponent is None else w_exponent.copy()
        h_exponent = none if h_exponent is None else h_exponent
        norm = np.sqrt(np.diag(C))
        inverse = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
        size = self.w_exponent + h_exponent
        present = (norm > 0) & (np.diag(D) > 0)
        self.exponent = int(size[present].max()) if present.any() else 0
        size = np.where(present, size - self.exponent, 0)
        scaled = np.ldexp(norm, size)
        self.C = C * inverse[:, None] * inverse
        self.D = D * scaled[:, None] * scaled
        self.unit = float(np.diag(self.D).max()) or 1.0  # products of squares keep their range
        self.D /= self.unit
        self.A, self.B = np.diag(inverse), np.diag(scaled)
        self.w_norm = norm
        self.ids = np.arange(len(C))
        self.alive = np.ones(len(C), dtype=bool)
        self.held = np.zeros(len(C), dtype=bool) if held is None else held
        self.pairs: list[tuple[int, int]] = []

    def pair_tables(self, order: Order | None) -> tuple[np.ndarray, np.ndarray]:
        """Penalty of every pair of slots, in units, and its place in the order: ∞ unless p < q."""
        r = len(self.C)
        penalty, rank = np.zeros((r, r)), np.full((r, r), np.inf)
        self._fill(penalty, rank, *np.triu_indices(r, k=1), order)
        return penalty, rank

    def refresh(
        self, penalty: np.ndarray, rank: np.ndarray, p: int, q: int, order: Order | None
    ) -> None:
        """Bring the tables up to date after slots p and q were joined in p."""
        rank[q, :] = rank[:, q] = np.inf
        others = np.flatnonzero(self.alive)
        others = others[others != p]
        self._fill(penalty, rank, np.minimum(p, others), np.maximum(p, others), order)

    def _fill(
        self,
        penalty: np.ndarray,
        rank: np.ndarray,
        p: np.ndarray,
        q: np.ndarray,
        order: Order | None,
    ) -> None:
        """Compute the table entries of the pairs of slots (p, q)."""
        h2 = np.diag(self.D)
        cost = pair_penalty(self.C[p, q], h2[p], h2[q], self.D[p, q])
        penalty[p, q] = rank[p, q] = cost
        if order is not None:
            rank[p, q] = _ranked(order, *(self.in_full(x) for x in (cost, h2[p], h2[q])))
        if self.held.any():
            rank[p, q] = np.where(self.held[p] | self.held[q], np.inf, rank[p, q])

    def in_full(self, value: np.ndarray) -> np.ndarray:
        """Squares in the scale of W and H; infinite or zero where that leaves the range."""
        with np.errstate(over="ignore", under="ignore"):
            return np.ldexp(self.unit * value, 2 * self.exponent)

    def join_cheapest(self, n_merges: int) -> np.ndarray:
        """Join the cheapest pair again and again; return what it cost, in units."""
        pairs, costs = merge_cheapest_(
            self.C, self.D, self.A, self.B, self.w_norm, self.w_exponent, self.ids, self.alive,
            self.held, max(0, n_merges),
        )  # fmt: skip
        self.pairs += [(i, j) for i, j in pairs.tolist()]
        return costs

    def join(self, p: int, q: int) -> None:
        """Join slots p and q in p, eqs. (linear_merge_model) and (optimal_h_m)."""
        c, g = self.C[p, q], self.D[p, q]
        alpha, beta = map(float, merge_weights(c, self.D[p, p], self.D[q, q], g))
        _combine_(self.C, p, q, alpha, beta)
        _combine_(self.D, p, q, alpha + beta * c, alpha * c + beta)
        self.A[p] = alpha * self.A[p] + beta * self.A[q]
        self.B[p] = (alpha + beta * c) * self.B[p] + (alpha * c + beta) * self.B[q]
        self._join_norms(p, q)
        i, j = sorted((int(self.ids[p]), int(self.ids[q])))
        self.pairs.append((i, j))
        self.ids[p] = len(self.C) + len(self.pairs) - 1
        self.alive[q] = False

    def _join_norms(self, p: int, q: int) -> None:
        """Give slot p the geometric mean of the norms of p and q; where one is zero, the other."""
        x, y = self.w_norm[p], self.w_norm[q]
        if x == 0 or y == 0:
            largest = p if x >= y else q
            self.w_norm[p] = self.w_norm[largest] or 1.0
            self.w_exponent[p] = self.w_exponent[largest]
            return
        self.w_norm[p] = sqrt(x) * sqrt(y)
        exponent = int(self.w_exponent[p] + self.w_exponent[q]) // 2  # both are even
        odd = exponent % 2
        self.w_norm[p] *= 2**odd
        self.w_exponent[p] = exponent - odd

    def slot(self, component: int) -> int:
        """The slot that holds a component, by its id."""
        return int(np.flatnonzero((self.ids == component) & self.alive)[0])

    def slots(self) -> tuple[np.ndarray, np.ndarray]:
        """Slots of what is alive: of leaves, then of merged components, each by id."""
        slots = np.flatnonzero(self.alive)
        slots = slots[np.argsort(self.ids[slots])]
        merged = self.ids[slots] >= len(self.C)
        return slots[~merged], slots[merged]


class _Leaves:
    """Factors of any size before merging; rows whose squares would leave the range are scaled."""

    def __init__(self, Wt: np.ndarray, H: np.ndarray) -> None:
        self.whole = Wt, H
        self.Wt, self.w_exponent = _rows_in_range(Wt)
        self.H, self.h_exponent = _rows_in_range(H)

    def state(self, held: np.ndarray | None = None) -> _MergeState:
        """The state before the first merge."""
        return _MergeState(
            gram64(self.Wt), gram64(self.H), self.w_exponent, self.h_exponent, held
        )  # fmt: skip

    def merged(self, state: _MergeState) -> tuple[np.ndarray, np.ndarray]:
        """Component-major factors after the merges of a state: leaves first, then merged."""
        leaves, merged = state.slots()
        norm, exponent = state.w_norm[merged, None], state.w_exponent[merged, None]

        def gather(
            whole: np.ndarray, F: np.ndarray, weights: np.ndarray, exponents: np.ndarray
        ) -> np.ndarray:
            out = np.empty((len(leaves) + len(merged), F.shape[1]), F.dtype)
            np.take(whole, leaves, axis=0, out=out[: len(leaves)], mode="clip")  # unbuffered
            for target, row in zip(out[len(leaves) :], weights, strict=True):
                own = np.flatnonzero(row)  # few: only the leaves of this component
                np.dot(row[own].astype(F.dtype), F[own], out=target)
            if exponents.any():
                np.ldexp(out[len(leaves) :], exponents, out=out[len(leaves) :])
            return out

        return (
            gather(self.whole[0], self.Wt, state.A[merged] * norm, exponent),
            gather(self.whole[1], self.H, state.B[merged] / norm, state.exponent - exponent),
        )


def _rows_in_range(F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F with rows whose squares keep their range, and the power of two each was divided by.

    The powers are even, and zero where F is fine as it is: always, for float32.
    """
    largest = F.max(axis=1, initial=0).astype(np.float64)
    exponents = np.frexp(largest)[1].astype(np.int64)
    if F.dtype == np.float32 or np.abs(exponents).max(initial=0) <= _LARGEST_EXPONENT:
        return F, np.zeros_like(exponents)
    exponents += exponents % 2
    return np.ldexp(F, -exponents[:, None]), exponents


def _combine_(G: np.ndarray, p: int, q: int, x: float, y: float) -> None:
    """Replace vector p by x·p + y·q in the Gram G."""
    own = x * x * G[p, p] + 2 * x * y * G[p, q] + y * y * G[q, q]
    G[p] = x * G[p] + y * G[q]
    G[:, p] = G[p]
    G[p, p] = own


def _ranked(order: Order, penalty: np.ndarray, h2_p: np.ndarray, h2_q: np.ndarray) -> np.ndarray:
    value = np.asarray(order(penalty, h2_p, h2_q), dtype=np.float64)
    if value.shape != penalty.shape or np.isnan(value).any():
        raise ValueError(
            "order must return one number for each pair: it was called with arrays of shape "
            f"{penalty.shape} and returned shape {value.shape}"
            + (" with NaN in it" if np.isnan(value).any() else "")
        )
    return value


@dataclass(frozen=True, eq=False)
class MergeTree:
    """The record of a merge: which components were joined, in which order, at what penalty.

    Attributes
    ----------
    n_leaves : int
        Number of components before the first merge; they have the ids 0 … n_leaves − 1.
    pairs : int array (n_merges, 2)
        Ids joined by each merge, the smaller first; the t-th merge makes id n_leaves + t.
    penalties : float array (n_merges,)
        Squared Frobenius distance that each merge moved WH by.
    """

    n_leaves: int
    pairs: np.ndarray
    penalties: np.ndarray

    def __post_init__(self) -> None:
        pairs = np.array(self.pairs, dtype=np.intp).reshape(-1, 2)
        penalties = np.array(self.penalties, dtype=np.float64)
        if penalties.shape != (len(pairs),):
            raise ValueError(
                f"a merge tree needs one penalty per pair: got {len(pairs)} pairs and "
                f"penalties of shape {penalties.shape}"
            )
        if len(pairs) >= max(self.n_leaves, 1):
            raise ValueError(f"{self.n_leaves} components cannot be merged {len(pairs)} times")
        used: set[int] = set()
        for t, (i, j) in enumerate(pairs.tolist()):
            if not 0 <= i < j < self.n_leaves + t or used & {i, j}:
                raise ValueError(
                    f"merge {t} joins the ids ({i}, {j}); ids must be smaller first, made before "
                    f"this merge and not merged already"
                )
            used |= {i, j}
        pairs.flags.writeable = penalties.flags.writeable = False
        object.__setattr__(self, "pairs", pairs)
        object.__setattr__(self, "penalties", penalties)

    @property
    def n_components(self) -> int:
        """Number of components after the last merge."""
        return self.n_leaves - len(self.pairs)

    @property
    def roots(self) -> tuple[int, ...]:
        """Ids that are left after the last merge, in the order of the merged components."""
        joined = set(self.pairs.ravel().tolist())
        return tuple(i for i in range(self.n_leaves + len(self.pairs)) if i not in joined)

    def prefix(self, n_components: int) -> "MergeTree":
        """The record up to the merge that leaves ``n_components``."""
        if not self.n_components <= n_components <= self.n_leaves:
            raise ValueError(
                f"n_components={n_components} is not on this merge tree, which goes from "
                f"{self.n_leaves} to {self.n_components} components"
            )
        n = self.n_leaves - n_components
        return MergeTree(self.n_leaves, self.pairs[:n], self.penalties[:n])

    def replay(
        self, W: np.ndarray, H: np.ndarray, n_components: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Apply the recorded merges, down to ``n_components`` (default: all), to W and H.

        Returns
        -------
        W, H : arrays (m, n_components) and (n_components, n)
        """
        tree = self if n_components is None else self.prefix(n_components)
        dtype = np.result_type(W, H, np.float32)  # integers become floats
        W, H = np.asarray(W, dtype), np.asarray(H, dtype)
        if W.ndim != 2 or H.ndim != 2 or W.shape[1] != H.shape[0] or len(H) != self.n_leaves:
            raise ValueError(
                f"this merge tree is for {self.n_leaves} components: expected W (m, "
                f"{self.n_leaves}) and H ({self.n_leaves}, n), got {W.shape} and {H.shape}"
            )
        leaves = _Leaves(np.ascontiguousarray(W.T), H)
        state = leaves.state()
        for i, j in tree.pairs.tolist():
            p, q = sorted((state.slot(i), state.slot(j)))
            state.join(p, q)
        Wt_merged, H_merged = leaves.merged(state)
        return Wt_merged.T, H_merged

    def to_linkage(self) -> np.ndarray:
        """Linkage matrix for `scipy.cluster.hierarchy.dendrogram`.

        Heights are running maxima of the square roots of the penalties (a dendrogram needs them
        nondecreasing). Trees that do not reach one component are closed above the last merge, by
        joins of equal, largest height.
        """
        heights = np.maximum.accumulate(np.sqrt(self.penalties))
        joined = set(self.pairs.ravel().tolist())
        sizes = [1] * self.n_leaves
        rows = []
        for (i, j), height in zip(self.pairs.tolist(), heights, strict=True):
            sizes.append(sizes[i] + sizes[j])
            rows.append((i, j, height, sizes[-1]))
        roots = [i for i in range(len(sizes)) if i not in joined]
        top = float(heights[-1]) if len(heights) else 0.0
        while len(roots) > 1:
            i, j = roots[:2]
            sizes.append(sizes[i] + sizes[j])
            rows.append((i, j, top, sizes[-1]))
            roots = [*roots[2:], len(sizes) - 1]
        return np.array(rows, dtype=np.float64).reshape(-1, 4)

    def __repr__(self) -> str:
        return f"MergeTree({self.n_leaves} → {self.n_components} components)"
