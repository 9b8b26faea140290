import numpy as np
import pytest

from nmfmerge.matrices.dask.reductions import Facts
from nmfmerge.matrices.dask.spans import (
    _BYTES,
    _BYTES_A_COLUMN,
    _LEAST_ROWS,
    _MOST_BYTES,
    _MOST_ROWS,
    Span,
    spans_of,
)

N = 50


def chunk(i, n_rows, n_bytes, is_sparse=False, by_rows=True):
    return Facts(i, n_rows, n_bytes, is_sparse, by_rows, 0.0, 1.0, 1, 0.0, 0.0, "")


def chunks_of(facts, n=N):
    return [span.chunks for span in spans_of(facts, range(len(facts)), n)]


def covered(spans):
    """Chunk and row within it of each row of X, as the spans say; and the rows, as they say."""
    places, rows = [], []
    for span in spans:
        for i, length in zip(span.chunks, span.lengths, strict=True):
            places += [(i, j) for j in range(length)[span.band or slice(None)]]
        rows += range(span.first, span.first + span.n_rows)
    return places, rows


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("by_rows", [False, True])
def test_all_rows_are_in_one_span_and_none_reaches_beyond_its_shard(rng, is_sparse, by_rows):
    for _ in range(50):
        sizes = np.exp(rng.uniform(0, 18, 20)).astype(int).tolist()
        facts = [chunk(i, size % 300, size, is_sparse, by_rows) for i, size in enumerate(sizes)]
        cut = int(rng.integers(1, 20))
        shards = [range(cut), range(cut, 20)]
        spans = [spans_of(facts, shard, N) for shard in shards]
        for shard, own in zip(shards, spans, strict=True):
            assert all(i in shard for span in own for i in span.chunks)
        places, rows = covered([*spans[0], *spans[1]])
        assert places == [(fact.chunk, j) for fact in facts for j in range(fact.n_rows)]
        assert rows == list(range(len(places)))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_small_chunks_are_put_together(is_sparse):
    facts = [chunk(i, 10, _BYTES // 4, is_sparse) for i in range(6)]
    assert spans_of(facts, range(6), N) == [
        Span(range(4), (10,) * 4), Span(range(4, 6), (10,) * 2, 40),
    ]  # fmt: skip


def test_spans_of_sparse_data_are_large_beside_the_short_factor():
    n = 4 * _BYTES // _BYTES_A_COLUMN
    facts = [chunk(i, 10, _BYTES, is_sparse=True) for i in range(8)]
    assert chunks_of(facts, n) == [range(4), range(4, 8)]
    assert chunks_of([chunk(0, 1000, 4 * _BYTES, is_sparse=True)], n) == [range(1)]
    assert len(chunks_of([chunk(0, 1000, 4 * _MOST_BYTES, is_sparse=True)], 10**9)) == 4


def test_spans_have_not_too_many_rows():
    facts = [chunk(i, _MOST_ROWS * 2 // 3, 10, is_sparse=True) for i in range(2)]
    assert chunks_of(facts) == [range(1), range(1, 2)]
    spans = spans_of([chunk(0, 2 * _MOST_ROWS, 10, is_sparse=True)], range(1), N)
    assert [span.n_rows for span in spans] == [_MOST_ROWS] * 2


@pytest.mark.parametrize("is_sparse", [False, True])
def test_large_chunks_are_gone_through_in_bands(is_sparse):
    spans = spans_of([chunk(0, 1000, 10 * _BYTES, is_sparse)], range(1), N)
    assert [span.band for span in spans] == [slice(100 * i, 100 * (i + 1)) for i in range(10)]


@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_that_do_not_lie_together_are_not_parted(is_sparse):
    facts = [chunk(0, 1000, 10 * _BYTES, is_sparse, by_rows=False)]
    assert spans_of(facts, range(1), N) == [Span(range(1), (1000,))]


def test_bands_of_long_rows_have_several():
    facts = [chunk(0, _LEAST_ROWS, 100 * _BYTES)]
    assert spans_of(facts, range(1), N) == [Span(range(1), (_LEAST_ROWS,))]


def test_chunks_of_other_kinds_are_not_put_together():
    kinds = [(False, False), (True, False), (True, True), (False, True)]
    facts = [chunk(i, 10, 10, *kind) for i, kind in enumerate(kinds)]
    assert chunks_of(facts) == [range(i, i + 1) for i in range(4)]
