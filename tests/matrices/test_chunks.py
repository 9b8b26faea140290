"""The blocks of a shard: cut from chunks or put together, and kept as long as there is room."""

import cloudpickle
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.matrices.base import DataReadError
from nmfmerge.matrices.dask import chunk_reader as chunks
from nmfmerge.matrices.dask.chunk_reader import Store
from nmfmerge.matrices.dask.opening import _sources, open_dask
from nmfmerge.matrices.dask.spans import Span

BANDS = [
    Span(range(i, i + 1), (20,), 20 * i + 5 * k, slice(5 * k, 5 * k + 5))
    for i in range(4)
    for k in range(4)
]
TOGETHER = [Span(range(3), (20, 20, 20)), Span(range(3, 4), (20,), 60)]


@pytest.fixture
def A(rng):
    return rng.random((80, 6))


def open_store(A, kind):
    X = da.from_array(A, chunks=(20, -1)).map_blocks(kind)
    (source,) = _sources(X, np.dtype(float), False, 1, cloudpickle.dumps)
    return Store(source.opened(), 10**12)


@pytest.fixture(params=[np.asarray, sp.csr_matrix])
def store(request, A):
    """A store whose chunks can be parted."""
    return open_store(A, request.param)


def taken(store, wanted=None):
    """The blocks of a pass, and the chunks that were read for it."""
    before = store.reader.n_reads
    wanted = range(len(store.spans)) if wanted is None else wanted
    found = [take().X for _, take in store.passing(wanted)]
    return found, store.reader.n_reads - before


def dense(X):
    return X.toarray() if sp.issparse(X) else X


def held(store):
    """Arrays that hold kept blocks."""
    values = [m.X.data if sp.issparse(m.X) else m.X for m in store._kept.values()]
    return {id(v if v.base is None else v.base) for v in values}


@pytest.mark.parametrize("surveyed", [False, True])
@pytest.mark.parametrize(
    ("kind", "spans"),
    [
        (np.asarray, BANDS), (sp.csr_matrix, BANDS), (np.asarray, TOGETHER),
        (np.asfortranarray, TOGETHER), (sp.csr_matrix, TOGETHER), (sp.csc_matrix, TOGETHER),
    ],
)  # fmt: skip
def test_blocks_are_the_rows_of_their_spans(A, kind, spans, surveyed):
    store = open_store(A, kind)
    if surveyed:
        assert taken(store)[1] == 4
    store.lay_out(spans)
    for reads in (0 if surveyed else 4, 0):
        found, n = taken(store)
        assert n == reads
        for span, X in zip(spans, found, strict=True):
            np.testing.assert_array_equal(dense(X), A[span.first : span.first + span.n_rows])


def without_room(monkeypatch, *used):
    """Let the process seem to use so many bytes, at one look after the other."""
    looks = iter(used)
    monkeypatch.setattr(chunks, "_used_memory", lambda most: next(looks, used[-1]))


def test_bands_of_a_chunk_are_where_it_is(store):
    taken(store)
    before = held(store)
    store.lay_out(BANDS)
    assert held(store) == before
    assert len(before) == 4


def test_chunks_are_kept_whole_or_not_at_all(store, monkeypatch):
    store.lay_out(BANDS)
    assert taken(store)[1] == 4
    with monkeypatch.context() as patch:
        without_room(patch, 0.55 * store.limit + 1, store.limit / 2)
        assert taken(store)[1] == 1
    assert len(store._kept) == 12
    assert len(held(store)) == 3
    assert taken(store)[1] == 1
    assert len(held(store)) == 4


def test_a_chunk_that_was_kept_in_part_is_read_again_as_a_whole(store):
    store.lay_out(BANDS)
    passing = store.passing(range(16))
    for _ in range(6):
        next(passing)[1]()
    passing.close()
    assert len(store._kept) == 6
    taken(store)
    assert (len(store._kept), len(held(store))) == (16, 4)


def test_chunks_are_not_put_together_where_memory_is_short(store, A, monkeypatch):
    taken(store)
    with monkeypatch.context() as patch:
        without_room(patch, store.limit)
        store.lay_out(TOGETHER)
    assert list(store._kept) == [1]
    found, n_reads = taken(store)
    assert n_reads == 3
    np.testing.assert_array_equal(dense(found[0]), A[:60])


def test_a_chunk_that_has_changed_is_named(store):
    store.lay_out([Span(range(2), (20, 21)), Span(range(2, 4), (20, 20), 41)])
    with pytest.raises(DataReadError, match="chunk 1 of X had 21 rows before and has 20 now"):
        taken(store)


def test_a_layout_that_fails_can_be_tried_again(A, monkeypatch):
    data = open_dask(da.from_array(A, chunks=(20, -1)))
    shards = data.executor._shards
    with monkeypatch.context() as patch:
        patch.setattr(chunks, "_block", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            data.digest()
    expected = open_dask(da.from_array(A, chunks=(20, -1))).digest()
    assert data.digest() == expected
    for shard in shards:
        assert [block.span for block in shard._blocks] == shard._store.spans
