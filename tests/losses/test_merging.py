import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import dendrogram, is_valid_linkage
from scipy.linalg import eigh

from nmfmerge import MergeTree, merge_components
from nmfmerge.losses import FROBENIUS
from nmfmerge.losses.frobenius_merging import merge_weights, pair_penalty


def factors(m=30, n=25, r=8, density=0.7, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    W = rng.random((m, r)) * (rng.random((m, r)) < density)
    H = rng.random((r, n)) * (rng.random((r, n)) < density) * rng.random((r, 1)) * 5
    return W.astype(dtype), H.astype(dtype)


def pair(seed, density):
    """A random pair: unit w_p, w_q and h_p, h_q, with c, a, d, g."""
    W, H = factors(r=2, density=density, seed=seed)
    W[seed % 30] += 0.1  # no zero columns
    norm = np.linalg.norm(W, axis=0)
    W, H = W / norm, H * norm[:, None]
    return W, H, W[:, 0] @ W[:, 1], H[0] @ H[0], H[1] @ H[1], H[0] @ H[1]


PAIRS = [(seed, density) for seed in range(20) for density in (0.15, 0.5, 1.0)]


@pytest.mark.parametrize(("seed", "density"), PAIRS)
def test_pair_penalty_is_the_second_squared_singular_value(seed, density):
    W, H, *scalars = pair(seed, density)
    s = np.linalg.svd(W @ H, compute_uv=False)
    assert pair_penalty(*scalars) == pytest.approx(s[1] ** 2, rel=1e-8, abs=1e-13)


@pytest.mark.parametrize(("seed", "density"), PAIRS)
def test_closed_form_solves_the_papers_generalized_eigenproblem(seed, density):
    """eq. (gen_eigen) with Q1 and Q2 of the appendix, where g is a cosine."""
    _, _, c, a, d, g = pair(seed, density)
    Q1 = np.array(
        [
            [a + 2 * c * g + c**2 * d, c * a + (1 + c**2) * g + c * d],
            [c * a + (1 + c**2) * g + c * d, c**2 * a + 2 * c * g + d],
        ]
    )
    Q2 = np.array([[1, c], [c, 1]])
    values, vectors = eigh(Q1, Q2)
    u = np.array(merge_weights(c, a, d, g))
    assert pair_penalty(c, a, d, g) == pytest.approx(values[0], rel=1e-8, abs=1e-13)
    assert u @ Q2 @ u == pytest.approx(1)
    if values[1] - values[0] > 1e-8:
        np.testing.assert_allclose(u, np.abs(vectors[:, 1]), atol=1e-7)


def test_weights_equal_the_papers_xi_where_that_is_finite():
    for seed in range(50):
        _, _, c, a, d, g = pair(seed, 0.6)
        tau, delta = a + 2 * c * g + d, (1 - c**2) * (a * d - g**2)
        lam_max = tau / 2 + np.sqrt(tau**2 / 4 - delta)
        xi = (lam_max - d - c * g) / (g + c * d)  # eq. (xi)
        expected = np.array([xi, 1]) / np.sqrt(1 + 2 * c * xi + xi**2)  # eq. (u_vec)
        np.testing.assert_allclose(merge_weights(c, a, d, g), expected, rtol=1e-9)


def test_merged_pair_is_the_best_rank_one_approximation():
    W, H, *_ = pair(3, 0.8)
    W1, H1, tree = merge_components(W, H)
    U, s, Vt = np.linalg.svd(W @ H)
    np.testing.assert_allclose(W1 @ H1, s[0] * np.outer(U[:, 0], Vt[0]), atol=1e-12)
    assert tree.penalties[0] == pytest.approx(s[1] ** 2)


def merge_by_vectors(W, H, n_components):
    """The same greedy merge, with dot products of the vectors themselves."""
    columns = {i: (W[:, i] / np.linalg.norm(W[:, i]), H[i] * np.linalg.norm(W[:, i]))
               for i in range(len(H))}  # fmt: skip
    pairs = []
    while len(columns) > n_components:
        best = None
        for i in columns:
            for j in columns:
                if i < j:
                    (wp, hp), (wq, hq) = columns[i], columns[j]
                    cost = pair_penalty(wp @ wq, hp @ hp, hq @ hq, hp @ hq)
                    if best is None or cost < best[0]:
                        best = (cost, i, j)
        _, i, j = best
        (wp, hp), (wq, hq) = columns.pop(i), columns.pop(j)
        c = wp @ wq
        alpha, beta = merge_weights(c, hp @ hp, hq @ hq, hp @ hq)
        merged = alpha * wp + beta * wq, (alpha + beta * c) * hp + (alpha * c + beta) * hq
        columns[len(H) + len(pairs)] = merged
        pairs.append((i, j))
    return columns, pairs


@pytest.mark.parametrize("seed", range(10))
def test_merging_on_grams_equals_merging_vectors(seed):
    W, H = factors(seed=seed)
    columns, pairs = merge_by_vectors(W, H, 3)
    W3, H3, tree = merge_components(W, H, 3)
    assert [tuple(p) for p in tree.pairs] == pairs
    for t, i in enumerate(sorted(columns)):
        w, h = columns[i]
        np.testing.assert_allclose(np.outer(W3[:, t], H3[t]), np.outer(w, h), atol=1e-12)


def test_components_not_merged_come_back_as_they_were():
    W, H = factors()
    W6, H6, tree = merge_components(W, H, 6)
    kept = sorted(set(range(8)) - set(tree.pairs.ravel().tolist()))
    assert kept
    np.testing.assert_array_equal(W6[:, : len(kept)], W[:, kept])
    np.testing.assert_array_equal(H6[: len(kept)], H[kept])


def test_a_merged_column_is_scaled_between_its_parents():
    W, H = factors()
    norm = np.linalg.norm(W, axis=0)
    W7, _, tree = merge_components(W, H, 7)
    expected = np.sqrt(np.prod(norm[tree.pairs[0]]))
    assert np.linalg.norm(W7[:, -1]) == pytest.approx(expected)
    unit, _, _ = merge_components(W / norm, H * norm[:, None], 3)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=0), 1)


def test_merging_to_the_same_number_changes_nothing():
    W, H = factors()
    W8, H8, tree = merge_components(W, H, 8)
    np.testing.assert_array_equal(W8, W)
    np.testing.assert_array_equal(H8, H)
    assert len(tree.pairs) == 0


def test_first_merge_takes_the_cheapest_pair_and_costs_its_penalty():
    W, H = factors()
    W7, H7, tree = merge_components(W, H, 7)
    costs = [
        np.linalg.svd(W[:, [i, j]] @ H[[i, j]], compute_uv=False)[1] ** 2
        for i in range(8)
        for j in range(i + 1, 8)
    ]
    assert tree.penalties[0] == pytest.approx(min(costs))
    assert np.sum((W @ H - W7 @ H7) ** 2) == pytest.approx(min(costs))


def test_largest_penalty_stops_the_merge():
    W, H = factors()
    _, _, full = merge_components(W, H)
    limit = np.sort(full.penalties)[3]
    W_m, _, tree = merge_components(W, H, max_penalty=limit)
    assert tree.penalties.max() <= limit
    n = len(tree.pairs)
    assert 0 < n < 7
    assert full.penalties[n] > limit
    assert W_m.shape[1] == 8 - n
    assert len(merge_components(W, H, 7, max_penalty=limit)[2].pairs) == 1


def test_own_order_decides_which_pair_is_next():
    W, H = factors()
    size = np.linalg.norm(W, axis=0) ** 2 * np.sum(H**2, axis=1)
    _, _, tree = merge_components(W, H, 7, order=lambda penalty, p, q: p + q)
    assert sorted(tree.pairs[0]) == sorted(np.argsort(size)[:2])
    _, _, default = merge_components(W, H, 4)
    _, _, same = merge_components(W, H, 4, order=lambda penalty, p, q: penalty)
    np.testing.assert_array_equal(default.pairs, same.pairs)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (lambda p, a, b: 1.0, "one number for each pair"),
        (lambda p, a, b: p * np.nan, "NaN in it"),
    ],
)
def test_own_order_must_return_a_number_per_pair(order, message):
    with pytest.raises(ValueError, match=message):
        merge_components(*factors(), 4, order=order)


@pytest.mark.parametrize("n_components", [1, 3, 7, 8])
def test_replay_equals_merge(n_components):
    W, H = factors()
    _, _, full = merge_components(W, H)
    W_m, H_m, _ = merge_components(W, H, n_components)
    W_r, H_r = full.replay(W, H, n_components)
    np.testing.assert_allclose(W_r, W_m, rtol=1e-13)
    np.testing.assert_allclose(H_r, H_m, rtol=1e-13)


def test_integers_are_replayed_as_they_are_merged():
    rng = np.random.default_rng(0)
    W, H = rng.integers(0, 9, (6, 4)), rng.integers(0, 9, (4, 5))
    W2, H2, tree = merge_components(W, H, 2)
    W_r, H_r = tree.replay(W, H)
    np.testing.assert_allclose(W_r @ H_r, W2 @ H2)
    assert W_r[:, -1].any()


def test_an_infinite_value_forbids_a_pair():
    W, H = factors()
    sizes = np.linalg.norm(W, axis=0) ** 2 * np.sum(H**2, axis=1)
    limit = np.sort(sizes)[:3].sum()
    _, _, tree = merge_components(W, H, order=lambda cost, p, q: np.where(p + q > limit, np.inf, p))
    assert 0 < len(tree.pairs) < 7


def test_replay_on_other_factors_and_wrong_ones():
    W, H = factors()
    _, _, tree = merge_components(W, H, 3)
    other_W, other_H = factors(seed=9)
    W_r, H_r = tree.replay(other_W, other_H)
    assert W_r.shape == (30, 3)
    assert H_r.shape == (3, 25)
    with pytest.raises(ValueError, match="for 8 components"):
        tree.replay(W[:, :4], H[:4])
    with pytest.raises(ValueError, match="n_components=2 is not on this merge tree"):
        tree.replay(W, H, 2)


SPECIAL = {
    "disjoint": (np.eye(6, 4), np.eye(4, 7)),
    "duplicates": (np.ones((6, 4)), np.ones((4, 7))),
    "zero_w": (np.ones((6, 4)) * [0, 1, 0, 2], np.arange(28.0).reshape(4, 7)),
    "zero_h": (np.arange(24.0).reshape(6, 4), np.ones((4, 7)) * np.array([[0], [1], [0], [2]])),
    "all_zero": (np.zeros((6, 4)), np.zeros((4, 7))),
    "ties": (np.tile(np.eye(2), (3, 2)), np.tile(np.eye(2), (2, 4))),
    "tiny": (np.eye(6, 4) + 0.1, np.eye(4, 7) + 0.01),
    "huge": (np.eye(6, 4), np.eye(4, 7) + 0.1),
}
EXTREME = {
    ("tiny", np.float32): 1e-35,
    ("huge", np.float32): 1e35,
    ("tiny", np.float64): 1e-75,
    ("huge", np.float64): 1e75,
}


@pytest.mark.parametrize("case", SPECIAL)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_components_merge_to_finite_nonnegative_factors(case, dtype):
    W, H = ((F * EXTREME.get((case, dtype), 1)).astype(dtype) for F in SPECIAL[case])
    for r in (4, 3, 2, 1):
        W_m, H_m, tree = merge_components(W, H, r)
        assert W_m.shape == (6, r)
        assert W_m.dtype == H_m.dtype == dtype
        for F in (W_m, H_m, tree.penalties):
            assert np.isfinite(F).all()
            assert F.min(initial=0) >= 0


def test_duplicates_and_zeros_merge_at_no_cost():
    W, H = factors(r=3)
    W = np.concatenate([W, W[:, :1], np.zeros((30, 1))], axis=1)
    H = np.concatenate([H, 2 * H[:1], np.ones((1, 25))])
    W3, H3, tree = merge_components(W, H, 3)
    np.testing.assert_allclose(tree.penalties, 0, atol=1e-12)
    np.testing.assert_allclose(W3 @ H3, W @ H, atol=1e-12)


def test_float32_merges_as_float64_does():
    W, H = factors()
    _, _, exact = merge_components(W, H, 3)
    W3, H3, tree = merge_components(W.astype(np.float32), H.astype(np.float32), 3)
    assert W3.dtype == H3.dtype == np.float32
    np.testing.assert_array_equal(tree.pairs, exact.pairs)
    np.testing.assert_allclose(tree.penalties, exact.penalties, rtol=1e-4)


def test_number_of_components_must_fit():
    W, H = factors()
    with pytest.raises(ValueError, match="n_components=9 is more than the 8 components"):
        merge_components(W, H, 9)
    with pytest.raises(ValueError, match="n_components=0 is out of range"):
        merge_components(W, H, 0)


@pytest.mark.parametrize("n_components", [1, 3, 8])
def test_linkage_is_what_scipy_wants(n_components):
    _, _, tree = merge_components(*factors(), n_components)
    Z = tree.to_linkage()
    assert Z.shape == (7, 4)
    assert is_valid_linkage(Z)
    assert Z[-1, 3] == 8
    drawn = dendrogram(Z, no_plot=True)
    assert sorted(drawn["leaves"]) == list(range(8))
    n = 8 - n_components
    np.testing.assert_array_equal(Z[:n, :2], tree.pairs)


@pytest.mark.parametrize(
    ("pairs", "penalties"),
    [([[0, 0]], [0]), ([[1, 0]], [0]), ([[0, 3]], [0]), ([[0, 1], [0, 2]], [0, 0]),
     ([[0, 1]], [0, 0]), ([[0, 1], [2, 3], [4, 5]], [0, 0, 0])],
)  # fmt: skip
def test_merge_tree_refuses_what_cannot_be(pairs, penalties):
    with pytest.raises(ValueError, match=r"merge|penalty|merged"):
        MergeTree(3, np.array(pairs), np.array(penalties))


@given(seed=st.integers(0, 10**6), r=st.integers(1, 9), exponent=st.sampled_from([0, 3, 120, -120]),
       kind=st.sampled_from(["random", "zero", "twins", "held"]))  # fmt: skip
def test_the_fast_loop_merges_as_the_plain_one_does(seed, r, exponent, kind):
    """The plain loop is the one that asks for the place of each pair in the order."""
    rng = np.random.default_rng(seed)
    Wt, H = 2.0**exponent * rng.random((r, 12)) ** 4, rng.random((r, 15)) ** 4
    if kind == "zero":
        Wt[rng.integers(r)] = 0
    if kind == "twins":
        Wt[-1], H[-1] = Wt[0], H[0]
    held = rng.random(r) < 0.3 if kind == "held" else None
    n_components = int(rng.integers(1, r + 1))
    fast = FROBENIUS.merged(Wt, H, n_components, held=held)
    plain = FROBENIUS.merged(Wt, H, n_components, order=lambda penalty, p, q: penalty, held=held)
    np.testing.assert_array_equal(fast[2].pairs, plain[2].pairs)
    rounding = 1e-15 * ((Wt**2).sum(axis=1) * (H**2).sum(axis=1)).max()
    np.testing.assert_allclose(fast[2].penalties, plain[2].penalties, rtol=1e-9, atol=rounding)
    for ours, theirs in zip(fast[:2], plain[:2], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12 * np.abs(theirs).max())
