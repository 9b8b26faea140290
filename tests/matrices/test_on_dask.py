"""Dask arrays in threads of this process: the same results as in memory, each chunk read once."""

import itertools
import pickle
import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import Interrupted, nmf, nmf_merge
from nmfmerge.matrices.base import DataReadError
from nmfmerge.matrices.dask.opening import open_dask
from nmfmerge.matrices.svd import right_singular_vectors

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.usefixtures("_spans")
M, N, R = 240, 30, 4


@pytest.fixture(autouse=True)
def _three_shards():
    with dask.config.set({"nmfmerge.shards": 3, "scheduler": "threads"}):
        yield


@pytest.fixture
def A(rng):
    return rng.random((M, R)) @ rng.random((R, N)) + 0.1 * rng.random((M, N))


def fit(X, n_iter=30, solver="hals", **options):
    """A fit of a fixed number of iterations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return nmf(X, options.pop("r", R), solver=solver, tol=0, max_iter=n_iter, **options)


def differences(result, expected):
    """Of the short factor, relative to its largest entry, and of the fitting error.

    The latter comes from sums that nearly cancel, so that it is exact to so much of ‖X‖² only.
    """
    short = "H" if isinstance(result.H, np.ndarray) else "W"
    F, G = getattr(result, short), getattr(expected, short)
    assert isinstance(F, np.ndarray)
    errors = [one.stages[-1].fitting_error for one in (result, expected)]
    return np.abs(F - G).max() / np.abs(G).max(), abs(errors[0] - errors[1])


def by_rows(A):
    return da.from_array(A, chunks=(50, -1))


def by_columns(A):
    return da.from_array(A.T.copy(), chunks=(-1, 50))


def csr(A):
    sparse = np.where(np.quantile(A, 0.7) < A, A, 0)
    return da.from_array(sparse, chunks=(50, -1)).map_blocks(sp.csr_matrix)


def csr_by_columns(A):
    sparse = np.where(np.quantile(A, 0.7) < A.T, A.T, 0)
    return da.from_array(sparse, chunks=(-1, 50)).map_blocks(sp.csr_matrix)


def computed(X):
    """X in memory."""
    blocks = dask.compute(*X.to_delayed().ravel(), scheduler="sync")
    if sp.issparse(blocks[0]):
        stack = sp.hstack if X.numblocks[0] == 1 else sp.vstack
        return sp.csr_matrix(stack(blocks))
    return X.compute(scheduler="sync")


def numpy(F):
    return F.compute(scheduler="sync") if hasattr(F, "compute") else F


@pytest.mark.parametrize("kind", [by_rows, by_columns, csr, csr_by_columns])
@pytest.mark.parametrize(
    ("solver", "n_iter", "tolerance"), [("hals", 30, 1e-12), ("accelerated", 50, 1e-9)]
)
def test_matches_the_fit_in_memory(A, kind, solver, n_iter, tolerance):
    X = kind(A)
    result, expected = fit(X, n_iter, solver), fit(computed(X), n_iter, solver)
    assert isinstance(result.H, np.ndarray) == (kind in (by_rows, csr))
    F, error = differences(result, expected)
    assert tolerance > F
    assert error < tolerance


def test_float32_matches_to_its_precision(A):
    A = A.astype(np.float32)
    H, error = differences(fit(by_rows(A)), fit(A))
    assert H < 1e-4
    assert error < 100 * 10 * np.finfo(np.float32).eps  # ten roundings of ‖X‖², in percent


@pytest.mark.parametrize("rows", [M, 97, 80, 24, 7])
def test_chunk_sizes_do_not_matter(A, rows):
    H, error = differences(fit(da.from_array(A, chunks=(rows, -1))), fit(A))
    assert H < 1e-12
    assert error < 1e-12


@pytest.mark.parametrize("shards", [1, 2, 50])
def test_shards_do_not_matter(A, shards):
    with dask.config.set({"nmfmerge.shards": shards}):
        H, error = differences(fit(by_rows(A)), fit(A))
    assert H < 1e-12
    assert error < 1e-12


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("by", ["rows", "columns"])
def test_a_digest_is_of_the_values_however_they_are_stored(A, by, dtype):
    A = np.where(np.quantile(A, 0.7) < A, np.round(10 * A), 0).astype(dtype)
    A[0, 0] = -0.0
    A = A if by == "rows" else A.T.copy()
    wide = by == "columns"
    found = set()
    for rows, shards in ((50, 1), (50, 2), (240, 1), (7, 5)):
        X = da.from_array(A, chunks=(-1, rows) if wide else (rows, -1))
        for kind in (np.asarray, np.asfortranarray, sp.csr_matrix, sp.csc_matrix, wide_indices):
            with dask.config.set({"nmfmerge.shards": shards}):
                found.add(
                    open_dask(X.map_blocks(kind, meta=kind(np.empty((0, 0), dtype)))).digest()
                )
    assert len(found) == 1
    swapped = A.copy()
    swapped[[3, 4]] = swapped[[4, 3]]
    larger = A.copy()
    larger[-1, -1] += 1
    for B in (swapped, larger, A[:, ::-1].copy()):
        X = da.from_array(B, chunks=(-1, 50) if wide else (50, -1))
        assert open_dask(X).digest() not in found


def wide_indices(block):
    block = sp.csr_matrix(block)
    block.indices, block.indptr = (i.astype(np.int64) for i in (block.indices, block.indptr))
    return block


def test_blocks_of_columns_are_put_together(A):
    H, error = differences(fit(da.from_array(A, chunks=(50, 7))), fit(A))
    assert H < 1e-12
    assert error < 1e-12


def test_empty_chunks_change_nothing(A):
    X = da.from_array(A, chunks=((0, 50, 0, 0, 90, 100, 0), (N,)))
    assert X.numblocks == (7, 1)
    result = fit(X)
    H, error = differences(result, fit(A))
    assert H < 1e-12
    assert error < 1e-12
    assert numpy(result.W).shape == (M, R)


def test_empty_sparse_chunks_change_nothing(A):
    X = csr(A)
    sparse = da.from_array(computed(X).toarray(), chunks=((0, 50, 0, 190, 0), (N,)))
    H, _ = differences(fit(sparse.map_blocks(sp.csr_matrix)), fit(computed(X)))
    assert H < 1e-12


def test_chunks_of_unknown_length(A):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    frame = dd.from_pandas(pd.DataFrame(A), npartitions=5)
    X = frame.to_dask_array()
    assert np.isnan(X.shape[0])
    result = fit(X)
    H, error = differences(result, fit(A))
    assert H < 1e-12
    assert error < 1e-12
    assert result.W.shape == (M, R)
    assert numpy(result.W).shape == (M, R)


def with_unknown(X, *axes):
    """The same array, whose length along these axes Dask does not know."""
    for axis in axes:
        every = da.ones(X.shape[axis], dtype=bool, chunks=(X.chunks[axis],))
        X = X[every] if axis == 0 else X[:, every]
    return X


@pytest.mark.parametrize("chunks", [(M, N), (60, N), (M, 10), (60, 10)], ids=str)
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)], ids=str)
def test_unknown_lengths_are_found_or_refused_with_what_to_do(A, chunks, axes):
    X = with_unknown(da.from_array(A, chunks=chunks), *axes)
    by_columns = (chunks[1] < N) if (chunks[0] < M) != (chunks[1] < N) else 1 in axes
    if (0 if by_columns else 1) in axes:
        other = "columns, and Dask does not know how many rows" if by_columns else (
            "rows, and Dask does not know how many columns"
        )  # fmt: skip
        with pytest.raises(ValueError, match=rf"chunks of {other}.*compute_chunk_sizes\(\)"):
            fit(X)
        X.compute_chunk_sizes()
    H, error = differences(fit(X), fit(A))
    assert H < 1e-12
    assert error < 1e-12


def test_xarray(A):
    xarray = pytest.importorskip("xarray")
    X = xarray.DataArray(by_rows(A), dims=("sample", "feature"))
    H, _ = differences(fit(X), fit(A))
    assert H < 1e-12


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_extreme_scales(A, scale):
    H, error = differences(fit(by_rows(A * scale)), fit(A * scale))
    assert H < 1e-12
    assert error < 1e-12


def test_zeros():
    X = np.zeros((60, 8))
    result, expected = (fit(one, 5, r=2) for one in (da.from_array(X, chunks=(20, -1)), X))
    np.testing.assert_array_equal(result.H, expected.H)
    assert result.fitting_error == expected.fitting_error
    assert not numpy(result.W).any() or not result.H.any()


def test_rank_deficient(A, rng):
    X = rng.random((M, 2)) @ rng.random((2, N))
    result = nmf_merge(by_rows(X), R)
    expected = nmf_merge(X, R)
    assert result.fitting_error == pytest.approx(expected.fitting_error, abs=1e-6)


def test_merge_fits_as_well_as_in_memory(A):
    result, expected = nmf_merge(by_rows(A), R, tol=1e-6), nmf_merge(A, R, tol=1e-6)
    assert result.objective == pytest.approx(expected.objective, rel=1e-6)


class Flaky:
    """Reads chunks, counting; a read of the chosen chunk fails so many times."""

    def __init__(self, chunk=None, failures=0):
        self.chunk, self.failures = chunk, failures
        self.reads = {}
        self.lock = threading.Lock()

    def __call__(self, block, block_info=None):
        i = block_info[0]["chunk-location"][0]
        with self.lock:
            self.reads[i] = self.reads.get(i, 0) + 1
            if i == self.chunk and self.failures > 0:
                self.failures -= 1
                raise OSError("the disk is tired")
        return block

    def over(self, A):
        """X that is read through this: its lock cannot be sent, as its tasks stay here."""
        return by_rows(A).map_blocks(self, dtype=A.dtype, meta=np.empty((0, 0)), name="flaky")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr("nmfmerge.matrices.dask.chunk_reader._PAUSE", 0.001)


def test_a_read_that_fails_once_changes_nothing(A):
    flaky = Flaky(chunk=2, failures=1)
    result = fit(flaky.over(A))
    assert flaky.failures == 0
    np.testing.assert_array_equal(result.H, fit(by_rows(A)).H)


def test_a_chunk_that_cannot_be_read_is_named(A):
    flaky = Flaky(chunk=3, failures=10**9)
    with pytest.raises(DataReadError, match=r"chunk 3 of X .*OSError: the disk is tired"):
        fit(flaky.over(A))
    assert flaky.reads[3] == 3
    _no_reader_threads()


def without_limits(monkeypatch):
    """Let no chunk be too large for the memory, of which there is next to none."""
    for name in ("chunk_reader.REFUSE_FROM", "opening.REFUSE_FROM", "opening._SHARE"):
        monkeypatch.setattr(f"nmfmerge.matrices.dask.{name}", float("inf"))


def test_factors_so_far_are_kept_when_a_chunk_cannot_be_read_any_more(A, monkeypatch):
    without_limits(monkeypatch)
    flaky = Flaky(chunk=3)

    def later(progress):
        if progress.iteration == 10:
            flaky.failures = 10**9

    with (
        dask.config.set({"nmfmerge.memory": 1}),
        pytest.raises(DataReadError) as raised,
    ):
        fit(flaky.over(A), callback=later)
    assert raised.value.factorization.H.shape == (R, N)


def test_unreadable_travels_with_its_text():
    error = DataReadError("chunk 3 of X could not be read: OSError: gone")
    there = pickle.loads(pickle.dumps(error))
    assert isinstance(there, DataReadError)
    assert str(there) == str(error)
    assert there.factorization is None


def test_each_chunk_is_read_once_where_there_is_room(A):
    flaky = Flaky()
    fit(flaky.over(A))
    assert flaky.reads == dict.fromkeys(range(5), 1)


def test_each_chunk_is_read_once_a_pass_where_there_is_not(A, monkeypatch):
    without_limits(monkeypatch)
    flaky = Flaky()
    after = []

    def note(progress):
        after.append(dict(flaky.reads))

    with dask.config.set({"nmfmerge.memory": 1}):
        streamed = fit(flaky.over(A), callback=note)
    for before, now in itertools.pairwise(after):
        assert {i: now[i] - before[i] for i in now} == dict.fromkeys(range(5), 1)
    np.testing.assert_array_equal(streamed.H, fit(by_rows(A)).H)
    _no_reader_threads()


def _no_reader_threads():
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("nmfmerge-read")]


def test_right_singular_vectors_where_passes_run_out(rng, monkeypatch):
    """Those found so far are orthonormal, and nearly as good as the best of so many vectors."""
    B = rng.standard_normal((60, 60))
    S = B @ B.T
    for passes in (1, 2, 3):
        monkeypatch.setattr("nmfmerge.matrices.svd._MOST_PASSES", passes)
        V = right_singular_vectors(lambda rows: rows @ S, 60, np.dtype(float), 3, tolerance=1e-14)
        np.testing.assert_allclose(V @ V.T, np.eye(3), atol=1e-10)
    best = np.linalg.eigvalsh(S)[-3:].sum()
    assert 0.95 * best < np.trace(V @ S @ V.T) <= best * (1 + 1e-12)


def test_ctrl_c_keeps_factors_and_leaves_no_work_behind(A):
    def interrupt(progress):
        if progress.iteration == 10:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as raised:
        fit(by_rows(A), callback=interrupt)
    kept = raised.value.factorization
    assert kept.n_iter >= 9
    assert kept.fitting_error < fit(A, 2).fitting_error
    assert numpy(kept.W).shape == (M, R)
