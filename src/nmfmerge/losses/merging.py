"""Merges of components: the plan of one, and the record of what was joined."""

from dataclasses import dataclass

import numpy as np

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.losses.frobenius_merging import Leaves
from nmfmerge.losses.greedy import Components, Order, join_pairs_


@dataclass(frozen=True, eq=False)
class MergePlan:
    """The result of merging: the merged factors are ``A @ Wt`` and ``B @ H``."""

    A: np.ndarray
    B: np.ndarray
    tree: "MergeTree"


def merge_plan(
    components: Components,
    n_components: int,
    max_penalty: float = np.inf,
    order: Order | None = None,
) -> MergePlan:
    """Plan merges: each time the pair of components that costs least.

    Parameters
    ----------
    components : Components
        The components by what the merge under a loss needs of them; changed.
    n_components : int
        Stop at this number of components.
    max_penalty : float
        Stop before a merge that costs more than this.
    order : callable, optional
        ``order(penalty, size_p, size_q)``, arrays in, array out: the pair with the least value is
        merged next. Sizes are what the loss measures components by: under Frobenius the squared
        norms of the rows of H when columns of W have unit norm, under Kullback–Leibler the sums.
        A pair of infinite value is never merged. Default: the penalty itself.

    Returns
    -------
    plan : MergePlan
        Components not merged, unchanged and in their order, then the merged ones.
    """
    tree = merge_tree(components, n_components, max_penalty, order)
    return MergePlan(*components.mixing(), tree)


def merge_tree(
    components: Components, n_components: int, max_penalty: float, order: Order | None
) -> "MergeTree":
    """Merge components, and record it; arguments as in `merge_plan`."""
    penalties = join_pairs_(components, n_components, max_penalty, order)
    return MergeTree(len(components.ids), np.array(components.pairs), penalties)


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
            raise ArgumentError(
                "n_components",
                f"is not on this merge tree, which goes from {self.n_leaves} to "
                f"{self.n_components} components",
                value=n_components,
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
        leaves = Leaves(np.ascontiguousarray(W.T), H)
        components = leaves.components()
        for i, j in tree.pairs.tolist():
            p, q = sorted((components.slot(i), components.slot(j)))
            components.join_(p, q)
        Wt_merged, H_merged = leaves.merged(components)
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
