"""Match the components of many fits: one cluster for each component of the consensus.

Input: the components of all fits at one rank, as unit vectors. Output: the cluster of each, which
of them are outliers, and how well the clusters are separated.

Within a fit the components go to clusters one to one, by the assignment with the largest sum of
cosines. Outliers, components that are far from their nearest neighbours among all components (the
local density of Kotliar et al. 2019), do not shape a cluster, unless it has no others.
"""

from dataclasses import dataclass

import numpy as np

NEIGHBOURS = 0.3  # of the number of fits: the neighbours that a local density is computed from
_MOST_ROUNDS = 100
_BLOCK = 2**24  # cosines at a time


@dataclass(frozen=True, eq=False)
class Clusters:
    """The components of all fits, matched.

    Attributes
    ----------
    matches : int array (n_fits, r)
        The cluster of each component; each fit has every cluster once.
    density : array (n_fits, r)
        Local density: the mean distance to the nearest components of all fits, from 0 to √2.
    outliers : bool array (n_fits, r)
        Components whose local density is above the threshold.
    cosines : array (n_fits, r)
        Cosine of each component with the centre of its cluster.
    silhouettes : array (r,)
        Mean silhouette of each cluster by cosine distance, over all of its components.
    """

    matches: np.ndarray
    density: np.ndarray
    outliers: np.ndarray
    cosines: np.ndarray
    silhouettes: np.ndarray

    def members(self, cluster: int) -> np.ndarray:
        """Mask (n_fits, r) of the components of a cluster; outliers only if it has no others."""
        of_cluster = self.matches == cluster
        kept = of_cluster & ~self.outliers
        return kept if kept.any() else of_cluster


def cluster(components: np.ndarray, threshold: float) -> Clusters:
    """Match components one to one across fits.

    Parameters
    ----------
    components : array (n_fits, r, p)
        Of unit norm, or zero.
    threshold : float
        Local density above which a component is an outlier.
    """
    density = local_density(components)
    outliers = density > threshold
    centres = components[_most_typical(components, outliers)].astype(np.float64)
    matches = np.zeros(outliers.shape, dtype=np.intp)
    for _ in range(_MOST_ROUNDS):
        before, matches = matches, _matched(components @ centres.T, outliers)
        centres = _centres(components, matches, outliers)
        if np.array_equal(before, matches):
            break
    cosines = np.einsum("frp,frp->fr", components, centres[matches])
    return Clusters(
        matches, density, outliers, cosines.astype(np.float64), silhouettes(components, matches)
    )


def local_density(components: np.ndarray) -> np.ndarray:
    """Mean distance of each component to its nearest neighbours among all components.

    These are as many as 30 % of the fits, at least one.
    """
    n_fits, r, p = components.shape
    flat = components.reshape(-1, p)
    n_near = min(max(1, int(NEIGHBOURS * n_fits)), len(flat) - 1)
    if n_near < 1:
        return np.zeros((n_fits, r))
    density = np.empty(len(flat))
    squares = np.einsum("ip,ip->i", flat, flat)
    rows = max(1, _BLOCK // len(flat))
    for first in range(0, len(flat), rows):
        part = slice(first, first + rows)
        distances = squares[part, None] + squares - 2 * (flat[part] @ flat.T)
        np.fill_diagonal(distances[:, first:], np.inf)  # not its own neighbour
        near = np.partition(distances, n_near - 1, axis=1)[:, :n_near]
        density[part] = np.sqrt(np.maximum(near, 0)).mean(axis=1)
    return density.reshape(n_fits, r)


def silhouettes(components: np.ndarray, matches: np.ndarray) -> np.ndarray:
    """Mean silhouette of each cluster, by cosine distance.

    The mean distance to a cluster is 1 − ⟨u, mean of the cluster⟩, so no pairs are compared. With a
    single cluster the distance to the next one counts as 1, that of vectors with nothing in common.
    """
    n_fits, r, _ = components.shape
    sums = np.stack([components[matches == k].sum(axis=0, dtype=np.float64) for k in range(r)])
    products = (components @ sums.T).astype(np.float64)  # n_fits × r × r
    own = np.take_along_axis(products, matches[:, :, None], axis=2)[:, :, 0]
    squares = np.einsum("frp,frp->fr", components, components)
    within = 1 - (own - squares) / max(1, n_fits - 1)
    others = 1 - products / n_fits
    np.put_along_axis(others, matches[:, :, None], np.inf, axis=2)
    between = others.min(axis=2) if r > 1 else np.ones_like(within)
    largest = np.maximum(within, between)
    values = np.divide(between - within, largest, out=np.zeros_like(within), where=largest > 0)
    return np.array([values[matches == k].mean() for k in range(r)])


def _most_typical(components: np.ndarray, outliers: np.ndarray) -> int:
    """The fit whose components have the most alike ones in all others, of those with no outliers.

    Where all have outliers, of those with the fewest.
    """
    n_fits, r, p = components.shape
    flat = components.reshape(-1, p)
    likeness = np.zeros(n_fits)
    fits = max(1, _BLOCK // (r * len(flat)))
    for first in range(0, n_fits, fits):
        part = components[first : first + fits]
        cosines = (part.reshape(-1, p) @ flat.T).reshape(len(part), r, n_fits, r)
        likeness[first : first + len(part)] = cosines.max(axis=3).sum(axis=(1, 2)) + cosines.max(
            axis=1
        ).sum(axis=(1, 2))
    count = outliers.sum(axis=1)
    return int(np.argmax(np.where(count == count.min(), likeness, -np.inf)))


def _matched(cosines: np.ndarray, outliers: np.ndarray) -> np.ndarray:
    """The cluster of each component, one to one within each fit; outliers get what is left."""
    matches = cosines.argmax(axis=2)
    r = cosines.shape[2]
    clear = (np.sort(matches, axis=1) == np.arange(r)).all(axis=1)
    if clear.all():
        return matches
    from scipy.optimize import linear_sum_assignment  # slow to import

    for fit in np.flatnonzero(~clear):
        free = np.ones(r, dtype=bool)
        for rows in (np.flatnonzero(~outliers[fit]), np.flatnonzero(outliers[fit])):
            left = np.flatnonzero(free)
            chosen, columns = linear_sum_assignment(-cosines[fit][np.ix_(rows, left)])
            matches[fit, rows[chosen]] = left[columns]
            free[left[columns]] = False
    return matches


def _centres(components: np.ndarray, matches: np.ndarray, outliers: np.ndarray) -> np.ndarray:
    """The mean direction of each cluster, of its outliers only where it has no other members."""
    centres = np.zeros((components.shape[1], components.shape[2]))
    for k in range(len(centres)):
        of_cluster = matches == k
        kept = of_cluster & ~outliers
        centres[k] = components[kept if kept.any() else of_cluster].sum(axis=0, dtype=np.float64)
    norms = np.linalg.norm(centres, axis=1, keepdims=True)
    return np.divide(centres, norms, out=np.zeros_like(centres), where=norms > 0)
