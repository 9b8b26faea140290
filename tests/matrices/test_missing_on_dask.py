"""Missing values and weights in Dask arrays: the fits, single steps and metrics of NumPy arrays."""

import itertools
import warnings

import cloudpickle
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import NMFMerge, metrics, nmf, nmf_merge, rank_path, recover_components, transform
from nmfmerge.inputs import in_chunks
from nmfmerge.matrices.base import DataReadError
from nmfmerge.matrices.dask.chunk_reader import Store
from nmfmerge.matrices.dask.executor import Threads
from nmfmerge.matrices.dask.matrix import DaskData
from nmfmerge.matrices.dask.opening import open_dask
from nmfmerge.storage.checkpoint import Checkpoint

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.usefixtures("_small_spans")

_rng = np.random.default_rng(0)
X = _rng.gamma(0.4, size=(90, 4)) @ _rng.gamma(0.4, size=(4, 21)) + 0.1 * _rng.random((90, 21))
HOLES = np.where(_rng.random(X.shape) < 0.15, np.nan, X)
M = np.where(_rng.random(X.shape) < 0.2, 0, 3 * _rng.random(X.shape))
W, H = _rng.random((90, 3)), _rng.random((3, 21))
WEIGHTS = {
    "missing": None,
    "weights": M,
    "rows": 0.2 + _rng.random((90, 1)),
    "columns": 0.2 + _rng.random((1, 21)),
}
EXACT = {"tol": 1e-7, "max_iter": 20_000}


@pytest.fixture(autouse=True)
def _three_shards():
    with dask.config.set({"nmfmerge.shards": 3, "scheduler": "threads"}):
        yield


def rows(A):
    return None if A is None else da.from_array(A, chunks=(25, -1))


def columns(A):
    return da.from_array(A.T.copy(), chunks=(-1, 25))


def fit(X, r=3, **options):
    """A fit of a fixed number of iterations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return nmf(X, r, **{"tol": 0, "max_iter": 30, **options})


CASES = {
    "given": {"init": (W, H)},
    "several starts": {"n_init": 3, "init": "random", "random_state": 2},
    "penalties": {"init": (W, H), "alpha_W": 1e-3, "alpha_H": 2e-4, "l1_ratio": 0.3},
    "nndsvd": {"init": "nndsvd"},
    "until it converges": {"init": (W, H), "tol": 1e-3, "max_iter": 200},
    "held": {"init": (W, H), "hold": {"H": [0, 2]}},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_iterations_are_those_of_numpy(case, dtype):
    A = HOLES.astype(dtype)
    result, expected = fit(rows(A), **CASES[case]), fit(A, **CASES[case])
    assert result.H.dtype == dtype
    assert [s.n_iter for s in result.stages] == [s.n_iter for s in expected.stages]
    rtol = 1e-5 if case == "nndsvd" else 1e-8  # the margins are found to 1e-6
    rtol = rtol if dtype == np.float64 else 1e-2
    np.testing.assert_allclose(result.H, expected.H, rtol=rtol, atol=rtol * expected.H.max())
    ours, theirs = (one.stages[-1].fitting_error for one in (result, expected))
    assert ours == pytest.approx(theirs, rel=rtol)


def test_iterations_are_those_of_numpy_in_chunks_of_columns():
    result, expected = fit(columns(HOLES), init=(H.T, W.T)), fit(HOLES.T, init=(H.T, W.T))
    np.testing.assert_allclose(result.W, expected.W, rtol=1e-9)


def test_iterations_are_those_of_numpy_where_the_chunks_are_along_the_shorter_side():
    A = da.from_array(HOLES.T.copy(), chunks=(7, -1))
    result, expected = fit(A, init=(H.T, W.T)), fit(HOLES.T, init=(H.T, W.T))
    np.testing.assert_allclose(result.H, expected.H, rtol=1e-9)


@pytest.mark.parametrize("kind", WEIGHTS)
def test_fits_reach_the_optimum_of_numpy(kind):
    weights = WEIGHTS[kind]
    result = nmf(rows(HOLES), 3, weights=weights, init=(W, H), **EXACT)
    expected = nmf(HOLES, 3, weights=weights, init=(W, H), **EXACT)
    assert result.objective == pytest.approx(expected.objective, rel=1e-5)
    assert result.fitting_error == pytest.approx(expected.fitting_error, rel=1e-5)


def test_the_optimum_is_reached_where_most_is_missing():
    rng = np.random.default_rng(1)
    A = np.where(rng.random(X.shape) < 0.6, np.nan, W @ H + 0.1 * rng.random(X.shape))
    options = {"init": (W, H), "tol": 1e-6, "max_iter": 20_000, "alpha_W": 1e-3}
    result, expected = nmf(rows(A), 3, **options), nmf(A, 3, **options)
    assert result.objective == pytest.approx(expected.objective, rel=1e-4)


@pytest.mark.parametrize(("scale", "dtype"), [(1e8, np.float32), (1e40, float), (1e-40, float)])
@pytest.mark.parametrize("kind", WEIGHTS)
def test_the_lazy_factor_has_the_scale_of_x(scale, dtype, kind):
    """Products with numbers that large or small would leave their range: they are divided first."""
    A, weights = (scale * HOLES).astype(dtype), WEIGHTS[kind]
    result = fit(rows(A), weights=weights, init="nndsvd")
    W, H = result.W.compute(), result.H
    error = metrics.fitting_error(A, W, H, weights=weights)
    assert error == pytest.approx(result.fitting_error, rel=1e-5)
    expected = transform(A, H, weights=weights)
    np.testing.assert_allclose(W, expected, rtol=1e-3, atol=1e-4 * expected.max())
    lazy = transform(rows(A), H, weights=weights)
    np.testing.assert_allclose(lazy, expected, rtol=1e-3, atol=1e-4 * expected.max())


@pytest.mark.parametrize("kind", ["missing", "weights"])
def test_merged_fits_agree_with_those_of_numpy(kind):
    options = {"n_init": 1, "tol": 1e-8, "max_iter": 20_000, "weights": WEIGHTS[kind]}
    result, expected = nmf_merge(rows(HOLES), 3, **options), nmf_merge(HOLES, 3, **options)
    assert result.objective == pytest.approx(expected.objective, rel=1e-4)
    assert [s.name for s in result.stages] == [s.name for s in expected.stages]


def test_an_exact_matrix_is_recovered():
    exact = W @ H
    result = nmf_merge(rows(np.where(np.isnan(HOLES), np.nan, exact)), 3, tol=1e-9, max_iter=20_000)
    np.testing.assert_allclose((result.W @ result.H).compute(), exact, atol=1e-5)


def test_chunks_do_not_matter():
    expected = fit(rows(HOLES), init=(W, H), weights=M)
    for chunks, of_weights in (((90, 21), 13), ((1, -1), (90, 21)), ((17, 5), (25, -1))):
        weights = da.from_array(M, chunks=of_weights)
        result = fit(da.from_array(HOLES, chunks=chunks), init=(W, H), weights=weights)
        np.testing.assert_allclose(result.H, expected.H, rtol=1e-9)


@pytest.mark.parametrize("init", ["nndsvd", "random"])
@pytest.mark.parametrize("weights", [None, M], ids=["missing", "weights"])
def test_chunks_may_be_empty(weights, init):
    """As they are where rows were chosen by a condition."""
    kept = ~((np.arange(90) >= 25) & (np.arange(90) < 50))

    def cut(A):
        return rows(A)[da.from_array(kept, chunks=25)].compute_chunk_sizes()

    assert cut(HOLES).chunks[0] == (25, 0, 25, 15)
    ours, theirs = (None, None) if weights is None else (cut(M), rows(M[kept]))
    result = fit(cut(HOLES), weights=ours, init=init)
    expected = fit(rows(HOLES[kept]), weights=theirs, init=init)
    np.testing.assert_allclose(result.H, expected.H, rtol=1e-9)
    filled = result.impute(cut(HOLES), weights=ours)
    np.testing.assert_allclose(filled, expected.impute(rows(HOLES[kept]), weights=theirs))


def test_weights_of_lines_may_be_a_dask_array_of_one_dimension():
    expected = fit(rows(HOLES), weights=WEIGHTS["rows"]).H
    weights = da.from_array(WEIGHTS["rows"][:, 0], chunks=40)
    np.testing.assert_array_equal(fit(rows(HOLES), weights=weights).H, expected)


@pytest.mark.parametrize("kind", ["weights", "rows"])
def test_a_chunk_carries_its_own_part_of_weights_in_memory(kind):
    weights = np.tile(WEIGHTS[kind], (100, 1))
    lazy = in_chunks.weighted(da.from_array(np.tile(X, (100, 1)), chunks=(900, -1)), weights)[1]
    key = (lazy.name, 3, 0)
    tasks = dict(lazy.__dask_graph__().cull({key}).to_dict())
    assert len(cloudpickle.dumps(tasks)) < 0.2 * weights.nbytes + 5000


@pytest.mark.parametrize("weights", [(M > 0).astype(float), M], ids=["0/1", "others"])
@pytest.mark.parametrize("lay", [rows, lambda A: A], ids=["dask", "numpy"])
def test_missing_entries_may_be_anything_without_changing_a_bit(weights, lay):
    first = fit(rows(X), weights=lay(weights), init="nndsvd")
    for value in (0.0, np.inf, -5.0, np.nan):
        found = fit(rows(np.where(M > 0, X, value)), weights=lay(weights), init="nndsvd")
        np.testing.assert_array_equal(found.H, first.H)
        np.testing.assert_array_equal(found.W.compute(), first.W.compute())


def test_weights_that_are_zero_or_equal_are_missing_values():
    expected = fit(rows(np.where(M > 0, X, np.nan)))
    result = fit(rows(X), weights=rows(7.0 * (M > 0)))
    np.testing.assert_array_equal(result.H, expected.H)
    assert result.objective == pytest.approx(7 * expected.objective)


def test_nothing_changes_where_nothing_is_missing():
    data = open_dask(rows(X))
    assert type(data) is DaskData
    expected = metrics.fitting_error(X, W, H)
    assert metrics.fitting_error(rows(X), W, H) == pytest.approx(expected, rel=1e-10)
    equal = fit(rows(X), weights=np.full((90, 1), 2.0), solver="hals", init=(W, H))
    np.testing.assert_array_equal(equal.H, fit(rows(X), solver="hals", init=(W, H)).H)


def test_an_iteration_is_one_pass():
    A, passes = rows(HOLES), []
    for n in (10, 30):
        data = open_dask(A)
        fit(data, init=(W, H), max_iter=n)
        passes.append(data.passes)
    assert passes[1] - passes[0] <= 25  # a step that is taken back may cost another


@pytest.mark.parametrize("kind", WEIGHTS)
def test_single_steps_and_metrics(kind):
    weights = WEIGHTS[kind]
    ours, theirs = {"weights": rows(weights)}, {"weights": weights}
    if kind in ("rows", "columns"):
        ours = theirs
    expected = metrics.fitting_error(HOLES, W, H, **theirs)
    assert metrics.fitting_error(rows(HOLES), W, H, **ours) == pytest.approx(expected, rel=1e-10)
    penalty = {"alpha_W": 0.01, "l1_ratio": 0.2}
    found = transform(rows(HOLES), H, **ours, **penalty)
    assert isinstance(found, da.Array)
    expected = transform(HOLES, H, **theirs, **penalty)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    found = recover_components(rows(HOLES), W, H, 2, **ours)
    expected = recover_components(HOLES, W, H, 2, **theirs)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-7, atol=1e-9)


def test_transform_by_the_divergence_takes_missing_values():
    found = transform(rows(HOLES), H, beta_loss="kullback-leibler").compute()
    expected = transform(HOLES, H, beta_loss="kullback-leibler")
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["missing", "weights", "columns"])
def test_the_estimator(kind):
    weights = WEIGHTS[kind]
    model = NMFMerge(3, n_init=1, alpha_W=1e-3)
    lazy = model.fit_transform(rows(HOLES), weights=weights)
    expected = model.transform(HOLES, weights=weights)
    np.testing.assert_allclose(lazy, expected, rtol=1e-6, atol=1e-9)
    ours, theirs = (model.score(A, weights=weights) for A in (rows(HOLES), HOLES))
    assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("weights", [None, M], ids=["missing", "weights"])
@pytest.mark.parametrize("wide", [False, True])
def test_impute_is_lazy_and_keeps_what_is_known(weights, wide):
    A, lay = (HOLES.T, columns) if wide else (HOLES, rows)
    weights = weights.T if wide and weights is not None else weights
    result = fit(lay(HOLES), weights=weights)
    full = result.impute(lay(HOLES), weights=weights)
    assert isinstance(full, da.Array)
    np.testing.assert_allclose(full, result.impute(A, weights=weights), rtol=1e-12)
    observed = ~np.isnan(A) & (True if weights is None else weights > 0)
    np.testing.assert_array_equal(full.compute()[observed], A[observed])
    with pytest.raises(ValueError, match="as the data of this fit"):
        result.impute(lay(HOLES)[:20])


def test_what_is_imputed_has_the_chunks_of_x():
    A = da.from_array(HOLES, chunks=(17, 5))
    result = fit(A)
    full = result.impute(A)
    assert full.chunks == A.chunks
    np.testing.assert_allclose(full, result.impute(HOLES), rtol=1e-12)


def test_paths_take_missing_values():
    path, expected = rank_path(rows(HOLES), 4, tol=1e-6), rank_path(HOLES, 4, tol=1e-6)
    np.testing.assert_allclose(path.fitting_errors, expected.fitting_errors, rtol=1e-3)


@pytest.mark.parametrize("kind", ["missing", "weights"])
def test_lost_parts_are_found_again(kind, monkeypatch):
    """Shards that are made again in the middle of a fit solve for their rows of W."""
    expected = nmf_merge(rows(HOLES), 3, weights=WEIGHTS[kind], n_init=1, tol=1e-7, max_iter=9999)
    deal, steps = Threads.deal_with, itertools.count()

    def forgetful(self, messages):
        if next(steps) % 37 == 36:
            self.close()
        return deal(self, messages)

    monkeypatch.setattr(Threads, "deal_with", forgetful)
    found = nmf_merge(rows(HOLES), 3, weights=WEIGHTS[kind], n_init=1, tol=1e-7, max_iter=9999)
    assert next(steps) > 100
    assert found.objective == pytest.approx(expected.objective, rel=1e-4)


class _Killed(Exception):
    pass


def test_a_run_cut_off_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    options = {"init": "random", "n_init": 2, "tol": 1e-6, "max_iter": 9999}
    whole = nmf_merge(rows(HOLES), 3, **options)
    seen = []

    def callback(progress):
        seen.append(progress)
        if len(seen) == 30:
            raise _Killed

    with pytest.raises(_Killed):
        nmf_merge(rows(HOLES), 3, checkpoint=tmp_path / "at", callback=callback, **options)
    result = nmf_merge(rows(HOLES), 3, checkpoint=tmp_path / "at", **options)
    assert result.fitting_error == pytest.approx(whole.fitting_error, rel=1e-4)


@pytest.mark.parametrize("lay", [rows, lambda A: A], ids=["dask", "numpy"])
@pytest.mark.parametrize("weights", [M, np.ones((90, 1))], ids=["weights", "equal"])
def test_a_run_goes_on_with_its_own_weights_only(tmp_path, lay, weights):
    """Twice the weights are another run: penalties count half as much."""
    fit(lay(X), weights=weights, alpha_W=0.01, checkpoint=tmp_path / "at")
    fit(lay(X), weights=weights, alpha_W=0.01, checkpoint=tmp_path / "at")
    with pytest.raises(ValueError, match="another run"):
        fit(lay(X), weights=2 * weights, alpha_W=0.01, checkpoint=tmp_path / "at")


def test_blocks_that_are_not_kept_are_read_again(monkeypatch):
    expected = fit(rows(HOLES), weights=M)
    monkeypatch.setattr(Store, "_keeps", lambda self, i, X: False)
    np.testing.assert_array_equal(fit(rows(HOLES), weights=M).H, expected.H)


def with_entry(value, row=70, column=3):
    A = HOLES.copy()
    A[row, column] = value
    return rows(A)


def test_what_cannot_be_fitted_says_so():
    with pytest.raises(ValueError, match=r"X\[70, 3\] is -1, in chunk 2"):
        nmf(with_entry(-1), 3)
    with pytest.raises(ValueError, match=r"infinity \(X\[70, 3\] is inf, in chunk 2\)"):
        nmf(with_entry(np.inf), 3)
    with pytest.raises(ValueError, match="no observed entry in row 70"):
        nmf(with_entry(np.nan, column=slice(None)), 3)
    with pytest.raises(ValueError, match="no observed entry in column 3"):
        nmf(with_entry(np.nan, row=slice(None)), 3)
    with pytest.raises(ValueError, match="no observed entry in row 0, 1, 2 and 87 more"):
        nmf(rows(np.full_like(X, np.nan)), 3)
    with pytest.raises(ValueError, match="without any observed entry"):
        transform(with_entry(np.nan, column=slice(None)), H).compute()
    with pytest.raises(ValueError, match="NaN or infinity"):  # in sparse chunks
        nmf(rows(HOLES).map_blocks(sp.csr_matrix), 3)


@pytest.mark.parametrize("options", [{"beta_loss": "kl"}, {"solver": "mu"}, {"missing": "zeros"}])
def test_what_needs_memory_says_so(options):
    with pytest.raises(ValueError, match="X in memory"):
        nmf(rows(HOLES), 3, **options)


@pytest.mark.parametrize("lay", [rows, lambda A: A], ids=["dask", "numpy"])
@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (-M, "negative values"),
        (np.where(M > 0, M, np.inf), "NaN or infinity"),
        (np.where(M > 0, M, np.nan), "NaN or infinity"),
        (0 * M, "zero everywhere"),
        (M[:, :5], r"has shape \(90, 5\) and X has shape"),
    ],
)
def test_weights_that_cannot_be_used_say_so(lay, weights, expected):
    with pytest.raises(ValueError, match=expected):
        nmf(rows(X), 3, weights=lay(weights))


@pytest.mark.parametrize(("dtype", "expected"), [(complex, "is complex"), (str, "has dtype <U")])
@pytest.mark.parametrize("lay", [rows, lambda A: A], ids=["dask", "numpy"])
def test_weights_that_are_not_real_say_so(lay, dtype, expected):
    with pytest.raises(TypeError, match=expected):
        nmf(rows(X), 3, weights=lay(M.astype(dtype)))


def test_weights_need_dense_chunks_of_known_length():
    with pytest.raises(ValueError, match="sparse chunks"):
        nmf(rows(X).map_blocks(sp.csr_matrix, meta=sp.csr_matrix((0, 0))), 3, weights=M)
    with pytest.raises(ValueError, match="is sparse, and X is a Dask array"):
        nmf(rows(X), 3, weights=sp.csr_array(M))
    with pytest.raises(ValueError, match="weights has sparse chunks"):
        nmf(rows(X), 3, weights=rows(M).map_blocks(sp.csr_matrix, meta=sp.csr_matrix((0, 0))))
    with pytest.raises(ValueError, match=r"call weights\.compute_chunk_sizes"):
        nmf(rows(X), 3, weights=rows(M)[rows(M)[:, 0] >= 0])
    unknown = rows(X)[rows(X)[:, 0] >= 0]
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        nmf(unknown, 3, weights=M)
    result = fit(rows(HOLES)[rows(X)[:, 0] >= 0], init="nndsvd")
    np.testing.assert_allclose(result.H, fit(rows(HOLES), init="nndsvd").H, rtol=1e-9)


def test_a_chunk_that_cannot_be_read_any_more_keeps_the_factors():
    broken = rows(HOLES).map_blocks(lambda chunk: 1 / 0, meta=np.empty((0, 0)))
    with pytest.raises(DataReadError, match="could not be read"):
        nmf(broken, 3)
