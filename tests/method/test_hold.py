import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from nmfmerge import NMFMerge, datasets, metrics, nmf, nmf_merge, recover_components, transform
from nmfmerge.backends.numba import hals_sweep_, mu_step_
from nmfmerge.inputs.hold import Held
from nmfmerge.losses import FROBENIUS, Problem
from nmfmerge.matrices import wrap
from nmfmerge.matrices.dense import DenseData as Dense
from nmfmerge.method.recover import recover
from nmfmerge.solvers import SOLVERS

HOLDS = [[0], [2, 0], {"W": [1]}, {"H": [0, 2]}, {"W": [0], "H": [3]}, {"W": [0, 1, 2, 3]}]


def start(rng, m=30, n=24, r=4, dtype=np.float64):
    X = (rng.random((m, r + 2)) @ rng.random((r + 2, n))).astype(dtype)
    return X, rng.random((m, r)).astype(dtype), rng.random((r, n)).astype(dtype)


def held_parts(hold, r=4):
    if not isinstance(hold, dict):
        return list(hold), list(hold)
    return list(hold.get("W", [])), list(hold.get("H", []))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("hold", HOLDS, ids=str)
@pytest.mark.parametrize("solver", SOLVERS)
def test_held_components_stay_to_the_bit_and_the_rest_improves(solver, hold, dtype, kind):
    X, W, H = start(np.random.default_rng(1), dtype=dtype)
    before = metrics.fitting_error(X, W, H)
    result = nmf(kind(X), 4, init=(W, H), hold=hold, solver=solver, tol=1e-3, max_iter=3000)
    in_W, in_H = held_parts(hold)
    assert np.array_equal(result.W[:, in_W], W[:, in_W])
    assert np.array_equal(result.H[in_H], H[in_H])
    assert result.fitting_error < 0.9 * before
    moved_W = [t for t in range(4) if t not in in_W]
    assert not np.any(np.all(result.W[:, moved_W] == W[:, moved_W], axis=0))


@pytest.mark.parametrize("solver", ["accelerated", "hals", "gcd", "alspgrad"])
def test_with_all_of_H_held_W_is_the_least_squares_solution(solver):
    X, W, H = start(np.random.default_rng(2))
    result = nmf(X, 4, init=(W, H), hold={"H": range(4)}, solver=solver, tol=1e-9)
    exact = np.array([nnls(H.T, x)[0] for x in X])
    assert metrics.fitting_error(X, result.W, H) == pytest.approx(
        metrics.fitting_error(X, exact, H), rel=1e-6
    )
    np.testing.assert_allclose(transform(X, H), exact, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e8, 1e30])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_held_numbers_of_any_size_and_precision_come_back_in_the_precision_of_X(dtype, scale):
    rng = np.random.default_rng(4)
    X, W, H = start(rng)
    X = (X * scale).astype(dtype)
    with np.errstate(under="ignore"):
        W *= np.sqrt(scale) * np.exp(-np.linspace(0, 80, len(W)))[:, None]  # down to denormal ones
        H *= np.sqrt(scale)
    for fit in (nmf, nmf_merge):
        result = fit(X, 4, init=(W, H), hold=[0, 1], tol=1e-2)
        assert result.W.dtype == dtype
        assert np.array_equal(result.W[:, :2], W[:, :2].astype(dtype))
        assert np.array_equal(result.H[:2], H[:2].astype(dtype))
    W_more, H_more, _ = recover_components(X, W, H, 1, hold=[0])
    assert np.array_equal(W_more[:, 0], W[:, 0].astype(dtype))
    assert np.array_equal(H_more[0], H[0].astype(dtype))


def test_holding_nothing_is_no_holding():
    X, W, H = start(np.random.default_rng(5), dtype=np.float32)
    W, H = np.ldexp(W, 40), np.ldexp(H, -40)  # needs balance, as float32 has not the range
    plain = nmf(X, 4, init=(W, H), tol=1e-2)
    for hold in ([], {}, {"W": []}, np.zeros(4, dtype=bool), set(), {}.keys()):
        assert np.array_equal(nmf(X, 4, init=(W, H), hold=hold, tol=1e-2).W, plain.W)


@pytest.mark.parametrize("solver", [solver for solver in SOLVERS if solver != "mu"])
@pytest.mark.parametrize(("dtype", "shift"), [(np.float32, 40), (np.float64, 300)])
def test_held_components_may_be_large_in_one_factor_and_small_in_the_other(solver, dtype, shift):
    X, W, H = start(np.random.default_rng(5), dtype=dtype)
    scaled = W.copy(), H.copy()
    scaled[0][:, 0], scaled[1][0] = np.ldexp(W[:, 0], shift), np.ldexp(H[0], -shift)
    options = {"solver": solver, "tol": 1e-3, "max_iter": 2000}
    for hold in ([0], {"H": [0]}, {"W": [0]}):
        plain = nmf(X, 4, init=(W, H), hold=hold, **options)
        found = nmf(X, 4, init=scaled, hold=hold, **options)
        in_W, in_H = held_parts(hold)
        assert np.array_equal(found.W[:, in_W], scaled[0][:, in_W])
        assert np.array_equal(found.H[in_H], scaled[1][in_H])
        assert found.fitting_error == pytest.approx(plain.fitting_error, rel=0.02)
    with pytest.raises(ValueError, match="too large beside X"):
        nmf(X, 4, init=(np.ldexp(scaled[0], 12 * shift // 10), scaled[1]), hold=[0])
    with pytest.raises(ValueError, match="too large beside X"):
        nmf(X, 4, init=scaled, hold=[0], solver="mu")


def test_products_of_held_components_are_computed_once(monkeypatch, single_operations):
    X, W, H = start(np.random.default_rng(6))
    rows = []

    def count(product):
        def counted(self, F, out):
            rows.append(len(F))
            return product(self, F, out)

        return counted

    for name in ("WtX", "HXt"):
        monkeypatch.setattr(Dense, name, count(getattr(Dense, name)))
    nmf(X, 4, init=(W, H), hold=[0, 1, 2], tol=1e-6)
    assert sorted(rows)[-3:] == [1, 3, 3]  # one component in all but the two first products


def test_all_held_is_a_fit_that_does_not_move():
    X, W, H = start(np.random.default_rng(3))
    for fit in (nmf, nmf_merge):
        result = fit(X, 4, init=(W, H), hold=range(4))
        assert result.converged
        assert np.array_equal(result.W, W)
        assert np.array_equal(result.H, H)


@given(seed=st.integers(0, 2**32 - 1), exponent=st.integers(-60, 60), data=st.data())
@settings(max_examples=80, deadline=None)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_objective_never_rises_beside_held_components(seed, exponent, data):
    rng = np.random.default_rng(seed)
    X, W, H = start(rng, m=int(rng.integers(4, 20)), n=int(rng.integers(4, 20)), r=3)
    if data.draw(st.booleans()):
        X = W @ H  # an exact fit is near
        W = W * rng.uniform(0.9, 1.1, W.shape)
    X, W = np.ldexp(X, 2 * exponent), np.ldexp(W, 2 * exponent)
    hold = {side: data.draw(st.lists(st.integers(0, 2), unique=True, max_size=2)) for side in "WH"}
    solver = data.draw(st.sampled_from(sorted(SOLVERS)))
    errors = [metrics.fitting_error(X, W, H)]

    def note(progress):
        errors.append(progress.fitting_error)

    result = nmf(X, 3, init=(W, H), hold=hold, solver=solver, tol=1e-7, max_iter=60, callback=note)
    errors.append(result.fitting_error)
    assert np.all(np.diff(errors) <= 1e-12 * errors[0] + 1e-12)
    assert np.array_equal(result.W[:, hold["W"]], W[:, hold["W"]])
    assert np.array_equal(result.H[hold["H"]], H[hold["H"]])


def test_a_held_sweep_is_the_sweep_that_skips_the_held_rows():
    rng = np.random.default_rng(5)
    F, C = rng.random((5, 40)), rng.random((5, 40))
    A = rng.random((9, 5))
    G, free, held = A.T @ A, [0, 2, 4], [1, 3]
    expected = F.copy()
    for t in free:
        expected[t] = np.maximum(0, expected[t] + (C[t] - G[t] @ expected) / G[t, t])
    part = F[None, free]
    rest = C[free] - G[np.ix_(free, held)] @ F[held]
    hals_sweep_(part, G[None][:, free][:, :, free], rest[None])
    np.testing.assert_allclose(part[0], expected[free], rtol=1e-12)


def test_mu_with_a_negative_cross_product_lowers_the_objective():
    rng = np.random.default_rng(6)
    F, C = rng.random((5, 300)), rng.normal(size=(5, 300))
    A = rng.random((9, 5))
    G = A.T @ A
    before = 0.5 * np.vdot(F, G @ F) - np.vdot(C, F)
    mu_step_(F[None], G[None], C[None], np.array([1e-9]), 1e-300)
    assert 0.5 * np.vdot(F, G @ F) - np.vdot(C, F) < before


@pytest.mark.parametrize("k", [1, 6])
def test_recovery_does_not_rescale_held_columns_and_never_raises_the_error(k):
    X, W, H = start(np.random.default_rng(7), r=3)
    held = np.array([True, False, True])
    Wt_new, H_new, values = recover(
        Problem(wrap(X), FROBENIUS, held=Held(held, np.zeros(3, dtype=bool))),
        np.stack([W.T, W.T[::-1]]), np.stack([H, H[::-1]]), k,
        refine=lambda start, Wt, H: (Wt, H),
    )  # fmt: skip
    assert values.shape == (2, k)
    for i, (W_old, H_old) in enumerate([(W, H), (W[:, ::-1], H[::-1])]):
        assert np.array_equal(Wt_new[i, :3][held], W_old.T[held])
        assert np.array_equal(H_new[i, :3], H_old)
        found = metrics.fitting_error(X, Wt_new[i].T, H_new[i])
        assert found <= metrics.fitting_error(X, W, H)


@pytest.mark.parametrize("hold", [[0, 1], {"H": [0, 1]}, {"W": [0], "H": [1]}], ids=str)
def test_the_whole_pipeline_holds(hold):
    data = datasets.lcms_like()
    first = nmf(data.X, 6, init="random", tol=1e-2)
    W, H = first.W, first.H
    result = nmf_merge(data.X, 6, init=(W, H), hold=hold)
    in_W, in_H = held_parts(hold)
    assert [s.name for s in result.stages][2:5] == ["recover", "overcomplete", "merge"]
    assert np.array_equal(result.W[:, in_W], W[:, in_W])
    assert np.array_equal(result.H[in_H], H[in_H])
    assert not {0, 1} & set(result.merges.pairs.ravel().tolist())
    assert result.fitting_error < first.fitting_error


def test_known_spectra_are_used_and_the_unknown_rest_is_found():
    data = datasets.lcms_like()
    known, r = data.H[:2], len(data.H)
    hold = {"H": [0, 1]}
    W, H, _ = recover_components(data.X, transform(data.X, known), known, r - 2, hold=hold)
    result = nmf_merge(data.X, r, init=(W, H), hold=hold)
    assert np.array_equal(result.H[:2], known)
    order, similarity = metrics.match_components(data.H.T, result.H.T)
    assert order[:2].tolist() == [0, 1]
    assert np.mean(similarity > 0.9) > 0.9


def test_the_estimator_holds_rows_of_H():
    X, W, H = start(np.random.default_rng(8))
    for hold in ([0, 1], {"H": [0, 1]}):
        model = NMFMerge(4, init=(W, H), hold=hold).fit(X)
        assert np.array_equal(model.components_[:2], H[:2])
    with pytest.raises(ValueError, match=r"hold=.*columns of W"):
        NMFMerge(4, init=(W, H), hold={"W": [0]}).fit(X)


def test_a_checkpoint_knows_what_is_held(tmp_path):
    X, W, H = start(np.random.default_rng(9))
    file = tmp_path / "run.npz"
    whole = nmf(X, 4, init=(W, H), hold=[1], tol=1e-6)
    with pytest.warns(UserWarning, match="max_iter"):
        nmf(X, 4, init=(W, H), hold=[1], tol=1e-6, max_iter=7, checkpoint=file)
    with pytest.raises(ValueError, match="hold"):
        nmf(X, 4, init=(W, H), hold=[2], tol=1e-6, checkpoint=file)
    resumed = nmf(X, 4, init=(W, H), hold=[1], tol=1e-6, checkpoint=file)
    assert np.array_equal(resumed.W, whole.W)
    assert np.array_equal(resumed.H, whole.H)


@pytest.mark.parametrize(
    ("hold", "kind", "message"),
    [
        ([4], ValueError, "hold=\\[4\\] is out of range.*from 0 to 3"),
        ([-1], ValueError, "out of range"),
        ([0, 0], ValueError, "repeats"),
        ([0.5], TypeError, "expected indices"),
        (3, TypeError, "expected indices"),
        ("W", TypeError, "expected indices"),
        ({"V": {0}}, ValueError, "'W' and 'H'"),
        ({"W": [7]}, ValueError, r"hold\['W'\]"),
        (np.array([True]), ValueError, "mask of 1 entries; expected one for each of 4"),
    ],
    ids=str,
)
def test_wrong_hold(hold, kind, message):
    X, W, H = start(np.random.default_rng(10))
    with pytest.raises(kind, match=message):
        nmf(X, 4, init=(W, H), hold=hold)


def test_hold_needs_factors_and_in_the_pipeline_the_first_of_them():
    X, W, H = start(np.random.default_rng(11))
    with pytest.raises(ValueError, match=r"init=\(W0, H0\)"):
        nmf(X, 4, hold=[0])
    with pytest.raises(ValueError, match="put them first"):
        nmf_merge(X, 4, init=(W, H), hold=[1])


def test_a_mask_says_the_same_as_indices():
    X, W, H = start(np.random.default_rng(12))
    mask = np.array([False, True, False, True])
    a, b = (nmf(X, 4, init=(W, H), hold=hold) for hold in (mask, [1, 3]))
    assert np.array_equal(a.W, b.W)
