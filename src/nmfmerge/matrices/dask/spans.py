"""Spans: the rows of X that a shard works on at a time, whatever the chunks of X are.

A pass multiplies with X twice, and sweeps between. That is fast where the first product has left X
in the cache, so large chunks are processed in bands. Each span has some overhead,
for sparse data as much as one pass over the short factor, so small chunks are combined.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nmfmerge.matrices.dask.reductions import Facts

# Bits of results depend on these, so they are the same on all machines.
_BYTES = 4_000_000  # of a span
_BYTES_A_COLUMN = 200  # of a sparse one, at least,
_MOST_BYTES = 64_000_000  # but not more than these
_LEAST_ROWS = 64  # of a band
_MOST_ROWS = 2**16  # unless a chunk cannot be parted: factors have to be in the cache, too


@dataclass(frozen=True)
class Span:
    """A band of a chunk of X, or one or several whole chunks."""

    chunks: range  # of X
    lengths: tuple[int, ...] = ()  # rows of each chunk; none before they are known
    first: int = 0  # row of X
    band: slice | None = None  # rows of the chunk, if it is not the whole

    @property
    def n_rows(self) -> int:
        """Rows in all."""
        return sum(self.lengths) if self.band is None else self.band.stop - self.band.start


def spans_of(facts: Sequence[Facts], shard: range, n_short: int) -> list[Span]:
    """Lay out the chunks of a shard, by what is known of all chunks of X."""
    found: list[Span] = []
    first = sum(fact.n_rows for fact in facts[: shard.start])
    for run in _runs([facts[i] for i in shard], n_short):
        chunks, lengths = range(run[0].chunk, run[-1].chunk + 1), tuple(one.n_rows for one in run)
        bands: list[slice] = []
        if len(run) == 1 and run[0].by_rows:
            bands = bands_of(lengths[0], run[0].n_bytes, run[0].is_sparse, n_short)
        found += [Span(chunks, lengths, first + band.start, band) for band in bands]
        if not bands:
            found.append(Span(chunks, lengths, first))
        first += sum(lengths)
    return found


def bands_of(n_rows: int, n_bytes: int, is_sparse: bool, n_short: int) -> list[slice]:
    """Bands of as many rows each, the last perhaps fewer; none where a chunk is small."""
    n = max(round(n_bytes / _size(is_sparse, n_short)), -(-n_rows // _MOST_ROWS))
    n = min(n, n_rows // _LEAST_ROWS)
    if n < 2:
        return []
    length = -(-n_rows // n)
    return [slice(i, min(i + length, n_rows)) for i in range(0, n_rows, length)]


def _size(is_sparse: bool, n_short: int) -> int:
    """Bytes that a span should have."""
    return min(max(_BYTES, _BYTES_A_COLUMN * n_short), _MOST_BYTES) if is_sparse else _BYTES


def _runs(facts: Sequence[Facts], n_short: int) -> Iterator[list[Facts]]:
    """Chunks that go together."""
    run: list[Facts] = []
    n_bytes = n_rows = 0
    for fact in facts:
        n_bytes, n_rows = n_bytes + fact.n_bytes, n_rows + fact.n_rows
        full = n_bytes > _size(fact.is_sparse, n_short) or n_rows > _MOST_ROWS
        if run and (full or _kind(fact) != _kind(run[0])):
            yield run
            run, n_bytes, n_rows = [], fact.n_bytes, fact.n_rows
        run.append(fact)
    yield run


def _kind(fact: Facts) -> tuple[bool, bool]:
    return fact.is_sparse, fact.by_rows
