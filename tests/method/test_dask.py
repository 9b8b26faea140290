"""What users do with Dask arrays: every entry point, in threads of this process."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import (
    DataReadError,
    Editor,
    Interrupted,
    NMFMerge,
    datasets,
    metrics,
    nmf,
    nmf_merge,
    rank_path,
    recover_components,
    transform,
)
from nmfmerge.matrices.dask.executor import Threads
from nmfmerge.ranks.search import _with_zero_component


@pytest.fixture
def A(rng):
    return rng.random((90, 4)) @ rng.random((4, 21)) + 0.1 * rng.random((90, 21))


@pytest.fixture
def X(A):
    return da.from_array(A, chunks=(25, 21))


@pytest.fixture
def wide(A):
    return da.from_array(A, chunks=(90, 6))


class Passes:
    """Counts passes over X; from one on, or in one only, they fail."""

    def __init__(self, monkeypatch, error, once=False):
        self.done, self._first, self._error, self._once = 0, None, error, once
        deal_with = Threads.deal_with

        def counted(threads, messages):
            self.done += 1
            late = 0 if self._first is None else self.done - self._first + 1
            if late == 1 or (late > 1 and not self._once):
                raise self._error()
            return deal_with(threads, messages)

        monkeypatch.setattr(Threads, "deal_with", counted)

    def fail_from(self, first):
        self.done, self._first = 0, first


def test_the_long_factor_of_a_result_is_lazy_and_the_best_for_the_other(A, X, wide):
    tall = nmf_merge(X, 3)
    assert isinstance(tall.H, np.ndarray)
    assert tall.W.chunks == ((25, 25, 25, 15), (3,))
    np.testing.assert_allclose(tall.W.compute(), transform(A, tall.H), atol=1e-12)
    assert tall.fitting_error == pytest.approx(
        metrics.fitting_error(A, tall.W.compute(), tall.H), rel=1e-10
    )
    other = nmf_merge(wide, 3)
    assert isinstance(other.W, np.ndarray)
    assert other.H.chunks == ((3,), (6, 6, 6, 3))
    assert other.fitting_error == pytest.approx(
        metrics.fitting_error(A, other.W, other.H.compute()), rel=1e-10
    )
    assert isinstance(tall.numpy().W, np.ndarray)
    assert isinstance(other.numpy().H, np.ndarray)


@pytest.mark.parametrize("init", ["nndsvd", "nndsvda", "nndsvdar", "random"])
@pytest.mark.parametrize("kind", ["tall", "wide"])
def test_starts_are_those_of_an_array_in_memory(A, X, wide, init, kind):
    given = X if kind == "tall" else wide
    ours, theirs = (nmf(data, 3, init=init, tol=1e-9) for data in (given, A))
    # The random numbers that a long factor gets for its zeros are other ones.
    rel = 1e-2 if init == "nndsvdar" else 1e-8
    assert ours.stages[0].fitting_error == pytest.approx(theirs.stages[0].fitting_error, rel=rel)
    assert ours.fitting_error == pytest.approx(theirs.fitting_error, rel=1e-6)


def test_several_starts_are_compared_as_in_memory(A, X):
    ours, theirs = (nmf_merge(data, 4, n_init=5, return_all=True) for data in (X, A))
    assert ours.best_start == theirs.best_start
    assert [start.seed for start in ours.starts] == [start.seed for start in theirs.starts]
    for i, (one, other) in enumerate(zip(ours.starts, theirs.starts, strict=True)):
        H = theirs.solutions[i].H  # the long factor of a result is the best for the short one
        best = metrics.fitting_error(A, transform(A, H), H)
        assert one.fitting_error == pytest.approx(best, rel=1e-7)
        np.testing.assert_allclose(one.similarity, other.similarity, atol=1e-4)
    assert len(ours.solutions) == 5


def test_the_estimator(A, X, wide):
    ours, theirs = (NMFMerge(3).fit(data) for data in (X, A))
    assert isinstance(ours.components_, np.ndarray)
    np.testing.assert_allclose(ours.components_, theirs.components_, rtol=1e-6, atol=1e-9)
    assert ours.reconstruction_err_ == pytest.approx(theirs.reconstruction_err_)
    weights = ours.transform(X)
    assert isinstance(weights, da.Array)
    np.testing.assert_allclose(weights.compute(), theirs.transform(A), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.fit_transform(X).compute(), weights.compute())
    assert ours.score(X) == pytest.approx(theirs.score(A), rel=1e-9)
    assert ours.score(wide) == pytest.approx(theirs.score(A), rel=1e-9)
    assert ours.n_features_in_ == 21
    with pytest.raises(ValueError, match="20 features"):
        ours.transform(X[:, :20])
    other = NMFMerge(3, tol=1e-2)
    weights = other.fit_transform(wide)
    assert isinstance(other.components_, np.ndarray)
    np.testing.assert_allclose(weights.compute(), other.transform(wide).compute(), rtol=1e-9)
    np.testing.assert_allclose(weights.compute(), other.transform(A), rtol=1e-6, atol=1e-9)


def test_the_estimator_gives_data_back_lazily(X):
    model = NMFMerge(3)
    W = model.fit_transform(X)
    model_of_X = model.inverse_transform(W)
    assert isinstance(model_of_X, da.Array)
    np.testing.assert_allclose(model_of_X.compute(), W.compute() @ model.components_)
    with pytest.raises(ValueError, match="X has 2 columns; expected the weights of 3"):
        model.inverse_transform(W[:, :2])


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_the_error_of_the_estimator_is_in_range_at_any_scale(A, X, scale):
    ours, theirs = (NMFMerge(3, n_init=1).fit(data * scale) for data in (X, A))
    assert ours.reconstruction_err_ == pytest.approx(theirs.reconstruction_err_, rel=1e-6)


def test_transform_is_lazy_and_names_bad_values_when_it_is_computed(A, X):
    H = nmf(A, 3).H
    bad = transform(X - 100, H)
    with pytest.raises(ValueError, match="negative or infinite"):
        bad.compute()
    with pytest.raises(ValueError, match="H has 20 columns and X has 21"):
        transform(X, H[:, :20])
    with pytest.raises(ValueError, match="1 dimension"):
        transform(X[:, 0], H)
    with pytest.raises(ValueError, match="1 dimension"):
        NMFMerge(3).fit(A).transform(X[:, 0])


def test_rank_path():
    """Of data whose components are sparse, so that they have only one best solution."""
    A = datasets.lcms_like(90, 60, 4).X
    X = da.from_array(A, chunks=(25, 60))
    ours, theirs = (rank_path(data, 4, stability=True) for data in (X, A))
    np.testing.assert_allclose(ours.penalties, theirs.penalties, rtol=1e-3)
    np.testing.assert_allclose(ours.stability, theirs.stability, atol=1e-3)
    for rank in range(1, 5):
        assert ours[rank].fitting_error == pytest.approx(theirs[rank].fitting_error, rel=1e-4)
        assert isinstance(ours[rank].W, da.Array)


def test_the_stability_of_a_single_row(A, X):
    paths = [rank_path(data, 1, stability=True) for data in (X[:1], A[:1], X[:1, :1])]
    assert paths[0].stability == pytest.approx(paths[1].stability)
    assert np.isnan(paths[2].stability).all()  # it has no halves


def test_a_rank_without_a_better_fit_has_a_component_of_zeros(X):
    result = nmf(X, 3)
    more = _with_zero_component(result)
    assert more.W.chunks == (result.W.chunks[0], (4,))
    np.testing.assert_array_equal(more.W.compute()[:, :3], result.W.compute())
    assert not more.W.compute()[:, 3].any()
    assert not more.H[3].any()


@pytest.mark.parametrize("stability", [False, True])
def test_a_path_is_kept_where_x_cannot_be_read_any_more(X, monkeypatch, stability):
    passes = Passes(monkeypatch, lambda: DataReadError("chunk 1 of X is gone"))
    whole = rank_path(X, 4, tol=0.01, stability=stability)
    found = []
    for first in np.linspace(2, passes.done, 12).astype(int).tolist():
        passes.fail_from(first)
        with pytest.raises(DataReadError, match="is gone") as caught:
            rank_path(X, 4, tol=0.01, stability=stability)
        path = caught.value.path
        found.append([] if path is None else path.ranks.tolist())
        if path is not None:
            assert caught.value.factorization is path[4]
            errors, best = path.fitting_errors, whole.fitting_errors[-len(path) :]
            assert np.all(errors >= best * (1 - 0.05))  # those of W as it was, not of the best
    assert found[-1] == [1, 2, 3, 4]
    assert sorted(found, key=len) == found
    assert {len(ranks) for ranks in found} >= {0, 4}


def test_rows_of_the_short_factor_can_be_held(A, X, wide):
    start = nmf(A, 4)
    held = nmf_merge(X, 4, init=(start.W, start.H), hold={"H": [0, 1]})
    np.testing.assert_array_equal(held.H[:2], start.H[:2])
    inside = nmf_merge(A, 4, init=(start.W, start.H), hold={"H": [0, 1]})
    assert held.fitting_error == pytest.approx(inside.fitting_error, rel=1e-4)
    held = nmf(wide, 4, init=(start.W, start.H), hold={"W": [2]})
    np.testing.assert_array_equal(held.W[:, 2], start.W[:, 2])
    with pytest.raises(ValueError, match=r"chunks of rows: .*hold=\{'H': indices\}"):
        nmf(X, 4, init=(start.W, start.H), hold=[0])
    model = NMFMerge(4, init=(start.W, start.H), hold=[0])
    with pytest.raises(ValueError, match=r"give chunks of rows, X.rechunk\(\{0: 'auto', 1: -1\}\)"):
        model.fit(wide)
    np.testing.assert_array_equal(
        model.fit(wide.rechunk({0: "auto", 1: -1})).components_[0], start.H[0]
    )


def test_a_result_is_a_start(A, X):
    first = nmf(X, 3)
    again = nmf(X, 3, init=(first.W, first.H))
    assert again.stages[0].fitting_error == pytest.approx(first.fitting_error, rel=1e-9)
    W, H, values = recover_components(X, first.W.compute(), first.H, 1)
    assert (W.shape, H.shape, values.shape) == ((90, 4), (4, 21), (1,))


def test_a_checkpoint_has_the_short_factor_alone(X, tmp_path):
    file = tmp_path / "run"
    whole = nmf_merge(X, 3, tol=1e-7)
    with pytest.warns(UserWarning, match="had not converged"):
        nmf_merge(X, 3, tol=1e-7, max_iter=15, checkpoint=file)
    continued = nmf_merge(X, 3, tol=1e-7, checkpoint=file)
    assert continued.fitting_error == pytest.approx(whole.fitting_error, rel=1e-6)
    taller = da.concatenate([X] * 40)
    with pytest.warns(UserWarning, match="had not converged"):
        nmf_merge(taller, 3, tol=1e-7, max_iter=15, checkpoint=tmp_path / "tall")
    with np.load(tmp_path / "tall") as saved:  # neither a long factor nor a digest of each chunk
        assert all(saved[name].size < len(taller) for name in saved.files)
        assert len(str(saved["record"])) < 10_000
    with pytest.raises(ValueError, match="other data"):
        nmf_merge(2 * X, 3, tol=1e-7, checkpoint=file)


def test_a_checkpoint_goes_on_in_other_chunks(A, X, tmp_path):
    file = tmp_path / "run"
    with pytest.warns(UserWarning, match="had not converged"):
        nmf_merge(X, 3, tol=1e-7, max_iter=15, checkpoint=file)
    continued = nmf_merge(X.rechunk((7, -1)), 3, tol=1e-7, checkpoint=file)
    assert continued.fitting_error == pytest.approx(
        nmf_merge(X, 3, tol=1e-7).fitting_error, rel=1e-6
    )


@pytest.mark.parametrize("value", [-1.0, np.inf])
@pytest.mark.parametrize("chunks", [(25, 21), (90, 6)])
def test_bad_values_are_named_with_their_chunk(A, value, chunks):
    A[61, 13] = value
    chunk = 2
    with pytest.raises(ValueError, match=rf"X\[61, 13\] is {value:g}, in chunk {chunk}"):
        nmf(da.from_array(A, chunks=chunks), 3)


def csr(block):
    return sp.csr_matrix(block)


@pytest.mark.parametrize(("value", "kind"), [("inf", np.asarray), ("inf", csr), ("nan", csr)])
def test_values_that_are_not_finite_are_named_before_negative_ones(A, value, kind):
    A[30, 2], A[40, 5] = -1, float(value)
    X = da.from_array(A, chunks=(25, 21)).map_blocks(kind)
    place = rf"NaN or infinity \(X\[40, 5\] is {value}, in chunk 1\)"
    with pytest.raises(ValueError, match=place):
        nmf(X, 3)


def test_masked_entries_are_refused(X):
    masked = da.ma.masked_greater(X, 1.0)
    with pytest.raises(DataReadError, match=r"chunk \d of X .*masked entries: fill them first"):
        nmf(masked, 3)
    with pytest.raises(TypeError, match="masked entries"):
        transform(masked, np.ones((1, 21))).compute()
    assert nmf(da.ma.masked_greater(X, 1e9), 3).fitting_error == nmf(X, 3).fitting_error


def test_what_cannot_be_sent_can_be_fitted_in_threads(A, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "X.h5", "w") as file:
        stored = file.create_dataset("X", data=A)
        result = nmf(da.from_array(stored, chunks=(25, -1)), 3)
        assert result.fitting_error == nmf(da.from_array(A, chunks=(25, -1)), 3).fitting_error


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.Philox, np.random.MT19937])
def test_any_generator_gives_the_same_start_for_any_number_of_shards(A, X, bits):
    errors = []
    for shards in (1, 2, 4):
        with dask.config.set({"nmfmerge.shards": shards}):
            rng = np.random.Generator(bits(3))
            result = nmf(X, 3, init="random", random_state=rng, tol=0.5)
            errors.append(result.fitting_error)
    assert max(errors) - min(errors) < 1e-9


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (lambda X: X.astype(complex), TypeError, "complex"),
        (lambda X: X.astype(str), TypeError, "dtype"),
        (lambda X: X[0], ValueError, r"1 dimension.* X\.reshape\(-1, 1\)"),
        (lambda X: X[None], ValueError, r"3 dimension.* X\.reshape\(-1, X\.shape\[-1\]\)"),
        (lambda X: X[:0], ValueError, "empty"),
        (lambda X: X[:, :0], ValueError, "empty"),
    ],
)
def test_arrays_of_the_wrong_kind(X, bad, error, message):
    with pytest.raises(error, match=message):
        nmf(bad(X), 2)


def test_what_needs_x_in_memory_says_so(A, X):
    first = nmf(A, 3)
    with pytest.raises(TypeError, match=r"Editor works in memory: pass X\.compute\(\)"):
        Editor(X, first)
    with pytest.raises(TypeError, match=r"kkt_residual works in memory"):
        metrics.kkt_residual(X, first.W, first.H)
    with pytest.raises(ValueError, match="'mu' needs X in memory"):
        nmf(X, 3, solver="mu")
    with pytest.raises(ValueError, match=r"device='cuda' cannot be used for a Dask array"):
        nmf(X, 3, device="cuda")
    assert metrics.fitting_error(X, first.W, first.H) == pytest.approx(first.fitting_error)


def test_a_callback_sees_both_factors(A, X):
    seen = []

    def look(progress):
        seen.append((progress.W, progress.H.copy(), progress.fitting_error))

    nmf(X, 3, max_iter=4, tol=0.2, callback=look)
    W, H, error = seen[-1]
    assert W.shape == (90, 3)
    assert metrics.fitting_error(A, W.compute(), H) <= error


def test_factors_that_a_callback_keeps_do_not_change(A, X):
    kept = {}

    def look(progress):
        with pytest.raises(ValueError, match="read-only"):
            progress.H[0] = 1
        if progress.iteration == 1:
            kept["W"], kept["H"] = progress.W, progress.H.copy()

    small = 0.9 / A.max()  # so that X is factorized as it is
    nmf(X * small, 3, tol=1e-6, callback=look)
    np.testing.assert_allclose(kept["W"].compute(), transform(A * small, kept["H"]), atol=1e-9)


def test_a_lazy_factor_does_not_change_with_the_other(A, X):
    result = nmf(X, 3)
    before = result.W.compute()
    H = result.H
    H.flags.writeable = True
    H /= H.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(result.W.compute(), before)


def test_ctrl_c_keeps_the_short_factor(X):
    def stop(progress):
        if progress.iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        nmf_merge(X, 3, callback=stop)
    kept = caught.value.factorization
    assert kept.H.shape == (3, 21)
    assert kept.W.compute().shape == (90, 3)


@pytest.mark.parametrize("error", [KeyboardInterrupt, DataReadError])
def test_a_stop_in_any_pass_keeps_the_short_factor_once_there_is_one(X, monkeypatch, error):
    passes = Passes(monkeypatch, error, once=error is KeyboardInterrupt)
    nmf(X, 3, tol=0.01)
    kept = []
    for first in range(1, passes.done + 1):
        passes.fail_from(first)
        with pytest.raises((error, Interrupted)) as caught:
            nmf(X, 3, tol=0.01)
        factorization = getattr(caught.value, "factorization", None)
        kept.append(factorization is not None and factorization.H.shape == (3, 21))
    assert kept == sorted(kept)
    assert sum(kept) > 6


def test_memory_and_shards_are_settings_of_dask(X):
    from nmfmerge.matrices.dask.opening import open_dask

    with dask.config.set({"nmfmerge.shards": 3}):
        assert open_dask(X).executor.n_shards == 3
    few = r"1 MB of memory are too little: this process has .* allow at least \S+ GB"
    with dask.config.set({"nmfmerge.memory": "1MB"}), pytest.raises(ValueError, match=few):
        nmf(X, 3)
    with (
        dask.config.set({"nmfmerge.shards": "4"}),
        pytest.raises(ValueError, match=r"nmfmerge.shards='4' .* expected a whole number"),
    ):
        nmf(X, 3)


def test_chunks_that_cannot_be_used_are_refused_before_they_are_read(A):
    def refuse(block):
        raise AssertionError("it was read")

    X = da.from_array(A, chunks=(30, 7)).map_blocks(refuse, meta=np.empty((0, 0)))
    fix = r"chunks of whole rows of X .* pass X\.rechunk\(\{0: 14, 1: -1\}\)"
    with dask.config.set({"nmfmerge.memory": "10kB"}), pytest.raises(ValueError, match=fix):
        nmf(X, 3)


def test_large_chunks_may_be_sparse(A):
    X = da.from_delayed(dask.delayed(csr)(A), A.shape, A.dtype)
    told = da.from_delayed(dask.delayed(csr)(A), A.shape, meta=sp.csr_matrix((0, 0)))
    with dask.config.set({"nmfmerge.memory": "10kB"}):
        with pytest.raises(ValueError, match=r"make X with meta=scipy.sparse.csr_matrix"):
            nmf(X, 3)
        with pytest.raises(ValueError, match="too little"):  # the chunk is not at fault
            nmf(told, 3)
    assert nmf(told, 3).fitting_error == pytest.approx(nmf(csr(A), 3).fitting_error, rel=1e-6)


def test_importing_nmfmerge_does_not_import_dask():
    import subprocess
    import sys

    code = "import nmfmerge, sys; sys.exit('dask' in sys.modules or 'distributed' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


WEIGHTS = [
    {"alpha_W": 0.01, "l1_ratio": 1.0},
    {"alpha_W": 0.01, "l1_ratio": 0.0},
    {"alpha_W": 0.004, "alpha_H": 0.02, "l1_ratio": 0.3},
    {"alpha_W": 0.02, "alpha_H": 0.004, "l1_ratio": 0.6},
]


def chunked(A, kind):
    """Each side as the long one, and each as the longer one."""
    A = A if kind.endswith("tall") else A.T
    chunks = (25, 21) if kind == "rows, tall" else (21, 25) if kind == "columns, wide" else None
    if chunks is None:  # in chunks along the shorter side
        chunks = (90, 6) if kind == "columns, tall" else (6, 90)
    X = da.from_array(np.ascontiguousarray(A), chunks=chunks)
    return A, X


def in_csr(X):
    return X.map_blocks(sp.csr_matrix)


@pytest.mark.parametrize("weights", WEIGHTS[2:], ids=str)
@pytest.mark.parametrize("kind", ["rows, tall", "rows, wide", "columns, tall", "columns, wide"])
@pytest.mark.parametrize("solver", ["hals", "accelerated"])
def test_penalties_are_those_of_an_array_in_memory(A, weights, kind, solver):
    A, X = chunked(A, kind)
    ours, theirs = (nmf(data, 3, solver=solver, tol=1e-6, **weights).numpy() for data in (X, A))
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-8)
    assert ours.fitting_error == pytest.approx(theirs.fitting_error, rel=1e-4)
    assert ours.objective == pytest.approx(objective(A, ours, **weights), rel=1e-10)
    for one, other in ((ours.W, theirs.W), (ours.H, theirs.H)):
        np.testing.assert_allclose(one, other, atol=1e-3 * other.max())


@pytest.mark.parametrize("kind", ["rows, tall", "columns, wide"])
def test_penalties_count_in_the_scale_of_x(A, kind):
    scale, weights = 4.0**5, {"alpha_W": 3.0, "alpha_H": 5.0, "l1_ratio": 0.5}
    A, X = chunked(scale * A, kind)
    result = nmf(X, 3, tol=1e-3, **weights).numpy()
    assert result.objective == pytest.approx(objective(A, result, **weights), rel=1e-10)


def objective(X, result, alpha_W, l1_ratio, alpha_H="same"):
    """The objective as scikit-learn's documentation states it."""
    alpha_H = alpha_W if alpha_H == "same" else alpha_H
    W, H = result.W, result.H
    on_W, on_H = (l1_ratio * F.sum() + 0.5 * (1 - l1_ratio) * np.sum(F**2) for F in (W, H))
    (m, n), residual = X.shape, X - W @ H
    return 0.5 * np.sum(residual**2) + alpha_W * n * on_W + alpha_H * m * on_H


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize("solver", ["hals", "accelerated"])
def test_iterations_with_penalties_are_those_in_memory(A, X, weights, solver):
    histories = []
    for data in (X, A):
        result = nmf(data, 3, init="nndsvda", solver=solver, tol=1e-5, **weights)
        histories.append(result.stages[-1].history.step)
    np.testing.assert_allclose(histories[0], histories[1], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_penalties_of_sparse_chunks(A, weights):
    A = np.where(np.median(A) < A, A, 0)
    X = in_csr(da.from_array(A, chunks=(25, 21)))
    ours, theirs = (nmf(data, 3, tol=1e-9, **weights) for data in (X, sp.csr_array(A)))
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-9)
    np.testing.assert_allclose(ours.W.compute(), theirs.W, atol=1e-4 * theirs.W.max())


def test_penalised_starts_are_merged_and_compared_as_in_memory(A, X):
    weights = {"alpha_W": 0.004, "l1_ratio": 0.5, "tol": 1e-7}
    ours, theirs = (nmf_merge(data, 4, return_all=True, **weights) for data in (X, A))
    assert ours.best_start == theirs.best_start
    for one, other in zip(ours.solutions, theirs.solutions, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-7)
        assert one.objective == pytest.approx(
            objective(A, one.numpy(), alpha_W=0.004, l1_ratio=0.5), rel=1e-10
        )


def test_the_estimator_penalises_lazy_weights(A, X, wide):
    weights = {"alpha_W": 0.02, "l1_ratio": 0.5, "tol": 1e-6}
    model = NMFMerge(3, **weights)
    W = model.fit_transform(X).compute()
    np.testing.assert_allclose(model.transform(X).compute(), W, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.transform(A), W, rtol=1e-9, atol=1e-12)
    assert model.score(X) == pytest.approx(model.score(A), rel=1e-9)
    weights |= {"n_init": 1, "n_extra": 0}  # other starts end in other minima, as good as this one
    W = NMFMerge(3, **weights).fit_transform(wide).compute()
    np.testing.assert_allclose(W, NMFMerge(3, **weights).fit_transform(A), atol=1e-4 * W.max())


def test_a_penalised_fit_is_kept_where_x_cannot_be_read_any_more(X, monkeypatch):
    passes = Passes(monkeypatch, lambda: DataReadError("chunk 1 of X is gone"))
    weights = {"alpha_W": 0.004, "l1_ratio": 0.5}
    nmf_merge(X, 4, n_init=2, **weights)
    kept = []
    for first in np.linspace(2, passes.done, 12).astype(int).tolist():
        passes.fail_from(first)
        with pytest.raises(DataReadError, match="is gone") as caught:
            nmf_merge(X, 4, n_init=2, **weights)
        kept.append(caught.value.factorization is not None)
    assert kept[-1]
