"""Components are matched across fits one to one; outliers shape no cluster."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from nmfmerge.consensus.cluster import cluster, local_density, silhouettes
from nmfmerge.consensus.fit import unit_rows


def fits_of(truth, n_fits, rng, noise=0.02):
    """Shuffled, noisy copies of the rows of ``truth``, and the order of each."""
    r = len(truth)
    orders = np.stack([rng.permutation(r) for _ in range(n_fits)])
    noisy = truth[orders] + noise * rng.random((n_fits, r, truth.shape[1]))
    return np.stack([unit_rows(F) for F in noisy]), orders


@pytest.fixture
def made():
    rng = np.random.default_rng(3)
    truth = unit_rows(rng.random((4, 30)) ** 4)
    components, orders = fits_of(truth, 12, rng)
    return truth, components, orders, rng


def test_shuffled_components_are_put_back(made):
    _, components, orders, _ = made
    found = cluster(components, 0.5)
    names = found.matches[0][np.argsort(orders[0])]  # the cluster of each row of the truth
    assert np.array_equal(names[orders], found.matches)
    assert not found.outliers.any()
    assert (found.silhouettes > 0.8).all()


def test_the_order_of_fits_does_not_matter(made):
    _, components, _, rng = made
    order = rng.permutation(len(components))
    before, after = cluster(components, 0.5), cluster(components[order], 0.5)
    assert np.allclose(after.density, before.density[order])
    centres = [
        {tuple(np.round(components_[f.matches == k].mean(axis=0), 9)) for k in range(4)}
        for f, components_ in ((before, components), (after, components[order]))
    ]
    assert centres[0] == centres[1]


def test_outliers_are_found_and_shape_no_cluster(made):
    truth, components, _, rng = made
    components[5, 2] = unit_rows(rng.random((1, 30)) * np.eye(30)[7])
    found = cluster(components, 0.5)
    assert np.argwhere(found.outliers).tolist() == [[5, 2]]
    assert sorted(found.matches[5]) == [0, 1, 2, 3]
    members = [components[found.members(k)] for k in range(4)]
    assert sorted(map(len, members)) == [11, 12, 12, 12]
    cosines = np.stack([unit_rows(m.mean(axis=0)[None])[0] for m in members]) @ truth.T
    assert cosines.max(axis=1).min() > 0.99


def test_a_cluster_of_outliers_alone_has_them_as_members():
    rng = np.random.default_rng(0)
    n_fits = 8
    components, _ = fits_of(np.eye(3, 40), n_fits, rng, noise=0)
    other = np.stack([np.eye(40)[10 + i] for i in range(n_fits)])[:, None]  # one in each fit
    found = cluster(np.concatenate([components, other], axis=1), 0.5)
    assert found.outliers[:, 3].all()
    assert not found.outliers[:, :3].any()
    lone = found.matches[0, 3]
    assert (found.matches[:, 3] == lone).all()
    assert found.members(lone).sum() == n_fits
    assert found.silhouettes[lone] == pytest.approx(0)


def test_local_density_is_the_mean_distance_to_the_nearest():
    rng = np.random.default_rng(1)
    components = np.stack([unit_rows(rng.random((3, 6))) for _ in range(10)])
    flat = components.reshape(-1, 6)
    distances = np.sort(cdist(flat, flat), axis=1)[:, 1:4]  # 30 % of 10 fits
    assert np.allclose(local_density(components).ravel(), distances.mean(axis=1))


def test_silhouettes_are_those_of_scikit_learn(made):
    from sklearn.metrics import silhouette_samples

    _, components, _, rng = made
    matches = np.stack([rng.permutation(4) for _ in components])
    known = silhouette_samples(components.reshape(-1, 30), matches.ravel(), metric="cosine")
    means = [known[matches.ravel() == k].mean() for k in range(4)]
    assert np.allclose(silhouettes(components, matches), means)


def test_a_single_cluster_has_the_mean_cosine_as_silhouette():
    rng = np.random.default_rng(2)
    components = np.stack([unit_rows(rng.random((1, 5))) for _ in range(6)])
    gram = components[:, 0] @ components[:, 0].T
    mean = (gram.sum() - 6) / 30
    assert silhouettes(components, np.zeros((6, 1), dtype=int)) == pytest.approx(mean)
    assert (cluster(components, 0.5).matches == 0).all()


def test_zero_components_are_legal():
    components = np.zeros((3, 2, 4))
    components[:, 0, 0] = 1
    found = cluster(components, 0.5)
    assert np.isfinite(found.silhouettes).all()
    assert sorted(found.matches[1]) == [0, 1]
