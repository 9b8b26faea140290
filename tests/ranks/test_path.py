"""`rank_path`: every rank has a valid solution, no error rises with rank, and nothing is lost."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import Interrupted, RankPath, Status, datasets, metrics, nmf, nmf_merge, rank_path
from nmfmerge.matrices.dense import DenseData
from nmfmerge.ranks.path import PathInterrupted


@pytest.fixture(scope="module")
def X():
    clean = datasets.gaussian_features(5).X[::2]
    return clean + 0.02 * np.random.default_rng(0).random(clean.shape)


def check_valid(path, X, n_min, n_max):
    assert path.ranks.tolist() == list(path) == list(range(n_min, n_max + 1))
    assert (np.diff(path.fitting_errors) <= 0).all()
    assert np.isnan(path.penalties[0])
    assert (path.penalties[1:] >= 0).all()
    for rank, result in path.items():
        assert result.W.shape == (X.shape[0], rank)
        assert result.H.shape == (rank, X.shape[1])
        for F in (result.W, result.H):
            assert np.isfinite(F).all()
            assert (F >= 0).all()


def matrices():
    """Small X of any kind: with zeros, of low rank, constant, very large or small, single."""
    shapes = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=7)
    entries = st.one_of(st.just(0.0), st.floats(0, 1), st.sampled_from([1.0, 1e-150, 1e100]))
    plain = hnp.arrays(np.float64, shapes, elements=entries)
    low_rank = st.tuples(*(hnp.arrays(np.float64, s, elements=st.integers(0, 3))
                           for s in ((6, 2), (2, 5)))).map(lambda WH: WH[0] @ WH[1])  # fmt: skip
    single = hnp.arrays(np.float32, shapes, elements=st.floats(0, 1, width=32))
    return st.one_of(plain, low_rank, single)


@given(matrices(), st.data())
def test_error_never_rises_with_rank_whatever_X_is(X, draw):
    n_max = draw.draw(st.integers(1, min(X.shape)))
    n_min = draw.draw(st.integers(1, n_max))
    kind = draw.draw(st.sampled_from([np.asarray, sp.csr_array, sp.csc_array]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = rank_path(kind(X), n_max, n_min, max_iter=50)
    check_valid(path, X, n_min, n_max)
    for result in path.values():
        assert result.W.dtype == result.H.dtype == X.dtype
        found = metrics.fitting_error(kind(X), result.W, result.H)
        rounding = 1e3 * float(np.finfo(X.dtype).eps)  # percent; of a sparse residual
        assert found == pytest.approx(result.fitting_error, rel=1e-6, abs=rounding)


@pytest.mark.parametrize("solver", ["hals", "gcd", "alspgrad", "mu"])
def test_every_solver_makes_a_path(X, solver):
    path = rank_path(X, 6, solver=solver, tol=1e-2)
    check_valid(path, X, 1, 6)
    assert path[5].fitting_error < 0.5 * path[4].fitting_error


def test_path_is_as_good_as_separate_fits(X):
    path = rank_path(X, 9)
    assert path.converged
    for rank, result in path.items():
        best = min(
            nmf(X, rank, tol=1e-3).fitting_error,
            nmf(X, rank, init="nndsvda", tol=1e-3).fitting_error,
            nmf_merge(X, rank, tol=1e-3, n_extra=1, n_init=1).fitting_error,
        )
        assert result.fitting_error <= 1.01 * best


def test_path_does_not_depend_on_the_scale_of_X(X):
    small, large = rank_path(X, 5), rank_path(2.0**40 * X, 5)
    np.testing.assert_array_equal(small.fitting_errors, large.fitting_errors)
    np.testing.assert_array_equal(small.penalties, large.penalties)
    np.testing.assert_array_equal(large[3].H, 2.0**20 * small[3].H)
    assert large[3].objective == 2.0**80 * small[3].objective


def test_penalty_is_that_of_the_cheapest_merge(X):
    path = rank_path(X, 4)
    tree = metrics.next_merges(path[4].W, path[4].H)
    assert path.penalties[-1] == pytest.approx(100 * tree.penalties[0] / np.sum(X**2))


def test_ranks_between_the_limits_only(X):
    path = rank_path(X, 6, 4)
    check_valid(path, X, 4, 6)
    assert len(path) == 3
    assert 5 in path
    assert 3 not in path
    with pytest.raises(KeyError, match="rank 7 is not on this path, which goes from 4 to 6"):
        path[7]
    assert "ranks 4 to 6" in repr(path)


def test_poor_ranks_are_tried_from_further_starts(X, capsys, monkeypatch):
    monkeypatch.setattr("nmfmerge.ranks.search.RankSearch._poor_ranks", lambda self: [3])
    rank_path(X, 6, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("fit of 3 ") for line in lines)
    assert not any(line.startswith("fit of 4 ") for line in lines)


def test_singular_vectors_are_computed_once(X, monkeypatch):
    computed = []
    compute = DenseData._compute_svd
    monkeypatch.setattr(
        DenseData,
        "_compute_svd",
        lambda self, r, check: computed.append(r) or compute(self, r, check),
    )
    rank_path(X, 8)
    assert computed == [8]


def test_time_limit_leaves_a_valid_path(X):
    for seconds in (1e-9, 1e-3, 5e-3, 2e-2):
        with pytest.warns(ConvergenceWarning, match="max_time"):
            path = rank_path(X, 12, tol=0, max_time=seconds)
        assert path.status is Status.MAX_TIME
        check_valid(path, X, 1, 12)


def test_iteration_limit_is_told(X):
    with pytest.warns(ConvergenceWarning, match=r"rank .*max_iter"):
        path = rank_path(X, 5, tol=0, max_iter=4)
    assert path.status is Status.MAX_ITER
    assert max(result.n_iter for result in path.values()) == 4


@pytest.mark.parametrize("after", [1, 7, 40, 90])
def test_callback_stops_the_search_and_keeps_what_is_there(X, after):
    stages = []

    def stop(progress):
        stages.append(progress.stage)
        return len(stages) >= after

    path = rank_path(X, 8, callback=stop)
    assert path.status is Status.CALLBACK
    assert len(stages) == after
    check_valid(path, X, 1, 8)
    assert stages[0] == "fit of 8"


@pytest.mark.parametrize("after", [1, 7, 40, 90])
def test_interrupted_path_is_not_lost(X, after):
    calls = []

    def interrupt(progress):
        calls.append(progress)
        if len(calls) == after:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        rank_path(X, 8, callback=interrupt)
    path = caught.value.path
    assert isinstance(caught.value, PathInterrupted)
    assert path.status is Status.INTERRUPTED
    check_valid(path, X, 1, 8)
    assert caught.value.factorization is path[8]
    again = pickle.loads(pickle.dumps(caught.value))
    np.testing.assert_array_equal(again.path.fitting_errors, path.fitting_errors)


def test_interrupt_before_a_half_has_a_start_loses_nothing(X, monkeypatch):
    def interrupted(self, axis, first):
        raise KeyboardInterrupt

    monkeypatch.setattr(DenseData, "half", interrupted)
    with pytest.raises(PathInterrupted) as caught:
        rank_path(X, 4, stability=True)
    check_valid(caught.value.path, X, 1, 4)


def test_interrupt_while_the_path_is_put_together_loses_nothing(X, monkeypatch):
    compute, calls = DenseData.residual_norm2, []

    def interrupted_once(self, Wt, H):
        calls.append(len(H))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return compute(self, Wt, H)

    monkeypatch.setattr(DenseData, "residual_norm2", interrupted_once)
    with pytest.raises(PathInterrupted) as caught:
        rank_path(X, 5)
    check_valid(caught.value.path, X, 1, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_max": 51}, "n_max=51 is too large for X with 50 rows and 70 columns: use at most 50"),
        ({"n_max": 3, "n_min": 4}, "n_min=4 is above n_max=3"),
        ({"n_max": 0}, "n_max=0 is out of range"),
        ({"n_max": 3, "solver": "fast"}, "solver='fast' is not known"),
        ({"n_max": 3, "max_time": 0}, "max_time=0 is out of range"),
    ],
)
def test_wrong_arguments_are_named(X, arguments, message):
    with pytest.raises(ValueError, match=message):
        rank_path(X, **arguments)


def test_path_checks_itself(X):
    path = rank_path(X, 4)
    parts = {
        "penalties": path.penalties, "rank_seconds": path.rank_seconds,
        "seconds": 0.0, "status": path.status,
    }  # fmt: skip
    for results, message in (
        ([], "at least one"),
        ([path[1], path[3], path[2], path[4]], "rise by one"),
        ([path[1], path[2], path[3]], "one entry of penalties"),
    ):
        with pytest.raises(ValueError, match=message):
            RankPath(results, **parts)


@pytest.mark.parametrize("kind", [np.asarray, np.transpose, sp.csr_array, sp.csc_array])
def test_stability_is_that_of_the_halves(X, kind):
    path = rank_path(kind(X), 7, 2, stability=True)
    assert path.stability[3] > 0.99  # at the rank of X without its background
    assert path.stability[1] < 0.9  # features of one size are joined in any way
    assert path.stability.shape == (6,)
    assert np.isnan(rank_path(kind(X), 3).stability).all()
    halves = [rank_path(X[:, i::2], 7, 2) for i in range(2)]
    cosines = metrics.match_components(halves[0][4].W, halves[1][4].W)[1]
    assert path.stability[2] == pytest.approx(cosines.min(), abs=1e-3)


def test_stability_is_not_measured_where_halves_are_too_small(X):
    path = rank_path(X[:6, :8], 6, stability=True)
    assert np.isnan(path.stability[4:]).all()
    assert not np.isnan(path.stability[:4]).any()
    assert np.isnan(rank_path(X[:6, :8], 6, 5, stability=True).stability).all()


@pytest.mark.parametrize("half", [1, 2])
def test_stop_in_a_half_keeps_the_path(X, half):
    whole = rank_path(X, 4)
    path = rank_path(X, 4, stability=True, callback=lambda p: p.stage.startswith(f"half {half}"))
    assert path.status is Status.CALLBACK
    np.testing.assert_array_equal(path.fitting_errors, whole.fitting_errors)
    assert np.isnan(path.stability).all()


@pytest.mark.parametrize("name", ["samson", "lcms_wt15", "pf1"])
def test_real_path_is_not_above_separate_fits(real, name):
    X = real(name)
    path = rank_path(X, 7)
    for rank, result in path.items():
        fits = nmf(X, rank, tol=1e-3), nmf_merge(X, rank, tol=1e-3, n_init=1)
        assert result.fitting_error <= 1.002 * min(fit.fitting_error for fit in fits)
