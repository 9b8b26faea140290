"""The greedy merge of components, for any loss: merge the cheapest pair until few enough are left.

Input: `Components`, by which a loss says what merging a pair costs and what it gives. Output:
the same with fewer components, each as a combination of the leaves, and the penalties.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ArgumentError

Order = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class Components(ABC):
    """Components in r slots while they are merged.

    A merged component takes the slot of its first parent; the second parent's slot is empty
    from then on. Slot p holds the component ``A[p] @ Wt``, ``B[p] @ H`` of the leaves, of unit
    size in W, to be scaled to ``w_size``.

    Attributes
    ----------
    A, B : float64 arrays (r, r)
    w_size : float64 array (r,)
    held : bool array (r,)
        Components that are never merged.
    ids : int array (r,)
        The leaves have 0 … r − 1; the t-th merge makes r + t.
    alive : bool array (r,)
        Which slots hold a component.
    pairs : list of (int, int)
        Ids joined by each merge, the smaller first.
    """

    shortlist = 1  # of the cheapest pairs, among which `best_of` chooses

    def __init__(
        self, A: np.ndarray, B: np.ndarray, w_size: np.ndarray, held: np.ndarray | None
    ) -> None:
        r = len(A)
        self.A, self.B, self.w_size = A, B, w_size
        self.held = np.zeros(r, dtype=bool) if held is None else held
        self.ids = np.arange(r)
        self.alive = np.ones(r, dtype=bool)
        self.pairs: list[tuple[int, int]] = []

    @abstractmethod
    def sizes(self) -> np.ndarray:
        """Size of the component in each slot, for an order, in units."""

    @abstractmethod
    def penalties(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Cost of merging each of these pairs of slots, in units."""

    @abstractmethod
    def combine_(self, p: int, q: int) -> None:
        """Put what comes of slots p and q in slot p."""

    def in_full(self, value: Any) -> Any:
        """Penalties and sizes in the scale of W and H."""
        return value

    def best_of(self, p: np.ndarray, q: np.ndarray) -> int:
        """Which of the cheapest pairs, least penalty first, is merged."""
        return 0

    def join_(self, p: int, q: int) -> None:
        """Join slots p and q in p, and record it."""
        self.combine_(p, q)
        i, j = sorted((int(self.ids[p]), int(self.ids[q])))
        self.pairs.append((i, j))
        self.ids[p] = len(self.A) + len(self.pairs) - 1
        self.alive[q] = False

    def slot(self, component: int) -> int:
        """The slot that holds a component, by its id."""
        return int(np.flatnonzero((self.ids == component) & self.alive)[0])

    def slots(self) -> tuple[np.ndarray, np.ndarray]:
        """Slots of what is alive: of leaves, then of merged components, each by id."""
        slots = np.flatnonzero(self.alive)
        slots = slots[np.argsort(self.ids[slots])]
        merged = self.ids[slots] >= len(self.A)
        return slots[~merged], slots[merged]

    def mixing(self) -> tuple[np.ndarray, np.ndarray]:
        """The A and B that make the factors: ``A @ Wt``, ``B @ H``, in the order of `slots`."""
        leaves, merged = self.slots()
        unit, size = np.eye(len(self.A))[leaves], self.w_size[merged, None]
        A = np.concatenate([unit, self.A[merged] * size])
        B = np.concatenate([unit, self.B[merged] / size])
        return A, B


def join_pairs_(
    components: Components, n_components: int, max_penalty: float, order: Order | None
) -> np.ndarray:
    """Join pairs down to ``n_components``; return the penalties. Arguments as in `merge_plan`."""
    table = _PairTable(components, order)
    penalties: list[float] = []
    for _ in range(len(components.alive) - n_components):
        pair = table.next_pair()
        if pair is None or (cost := float(components.in_full(table.penalty[pair]))) > max_penalty:
            break
        penalties.append(cost)
        components.join_(*pair)
        table.refresh(*pair)
    return np.array(penalties)


class _PairTable:
    """Penalty of every pair of slots, in units, and its rank in the order: ∞ unless p < q."""

    def __init__(self, components: Components, order: Order | None) -> None:
        r = len(components.alive)
        self.components, self.order = components, order
        self.penalty, self.rank = np.zeros((r, r)), np.full((r, r), np.inf)
        self._fill(*np.triu_indices(r, k=1))

    def next_pair(self) -> tuple[int, int] | None:
        """The pair to merge, or None where none may be."""
        count = self.components.shortlist if self.order is None else 1
        flat = self.rank.ravel()
        first = np.argsort(flat, kind="stable")[:count] if count > 1 else np.array([flat.argmin()])
        p, q = np.unravel_index(first, self.rank.shape)
        allowed = self.rank[p, q] < np.inf
        p, q = p[allowed], q[allowed]
        if len(p) == 0:
            return None
        best = self.components.best_of(p, q) if len(p) > 1 else 0
        return int(p[best]), int(q[best])

    def refresh(self, p: int, q: int) -> None:
        """Bring the table up to date after slots p and q were joined in p."""
        self.rank[q, :] = self.rank[:, q] = np.inf
        others = np.flatnonzero(self.components.alive)
        others = others[others != p]
        self._fill(np.minimum(p, others), np.maximum(p, others))

    def _fill(self, p: np.ndarray, q: np.ndarray) -> None:
        """Compute the entries of the pairs of slots (p, q)."""
        components = self.components
        rank = cost = components.penalties(p, q)
        if self.order is not None:
            sizes = components.sizes()
            rank = _ranked(self.order, *map(components.in_full, (cost, sizes[p], sizes[q])))
        self.penalty[p, q] = cost
        self.rank[p, q] = np.where(components.held[p] | components.held[q], np.inf, rank)


def _ranked(order: Order, penalty: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    value = np.asarray(order(penalty, p, q), dtype=np.float64)
    if value.shape != penalty.shape:
        raise ArgumentError(
            "order",
            f"returned an array of shape {value.shape} for arrays of shape {penalty.shape}",
            expected="one number for each pair",
        )
    if np.isnan(value).any():
        raise ArgumentError(
            "order", "returned an array with NaN in it", expected="one number for each pair"
        )
    return value
