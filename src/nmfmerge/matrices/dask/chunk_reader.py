"""The chunks of a shard: read through Dask, kept while there is memory, else read ahead.

Tasks travel as bytes: as arguments of a task they would become its dependencies. Within one process
they stay as they are, so that chunks may come from what cannot be sent, such as an open file.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
import psutil
import scipy.sparse as sp

from nmfmerge.matrices.base import DataMatrix, DataReadError, TooLittleMemory
from nmfmerge.matrices.dask.heap import give_back, kept_memory
from nmfmerge.matrices.dask.spans import Span
from nmfmerge.matrices.dask.weighted_block import WeightedBlock
from nmfmerge.matrices.dense import DenseData
from nmfmerge.matrices.sparse import SparseData

_ATTEMPTS = 3
_FETCH = 5.0  # seconds to wait for a chunk that should lie in the memory of a cluster
_PAUSE = 0.2  # seconds before the second attempt, doubled each time
_KEEP_UP_TO = 0.45  # of the memory of the process, with chunks of X that are kept
_DROP_FROM = 0.55
REFUSE_FROM = 0.9
_LONGEST_TEXT = 2000  # characters of another's message that are passed on


class ChunkBeingRecomputed(OSError):
    """A chunk was lost with its worker; it cannot be computed again while all threads wait."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """In the place of a task: its result lies in the memory of a cluster already."""


@dataclass(frozen=True, eq=False)
class Source:
    """Where the chunks of a shard come from, and what they have to be."""

    tasks: bytes | dict[Any, Any]  # of all its chunks
    keys: Sequence[Any]
    first_chunk: int
    by_columns: bool  # whether chunks are columns of X
    n_short: int  # length of the short side
    dtype: np.dtype
    weighted: bool = False  # whether a chunk has X and then its weights, side by side

    @property
    def chunks(self) -> range:
        """Which of the chunks of X they are."""
        return range(self.first_chunk, self.first_chunk + len(self.keys))

    def opened(self) -> "Reader":
        """A reader of the chunks."""
        try:
            tasks = cloudpickle.loads(self.tasks) if isinstance(self.tasks, bytes) else self.tasks
        except Exception as error:
            raise DataReadError(
                f"the tasks for {_named(self.chunks)} of X could not be loaded where they are to "
                f"be computed: {_text(error)}"
            ) from error
        in_memory = any(isinstance(task, InMemory) for task in tasks.values())
        return Reader(self, tasks, ClusterMemory.here() if in_memory else None)


@dataclass(eq=False)
class Reader:
    """Computes chunks, one at a time."""

    source: Source
    tasks: dict[Any, Any]
    memory: "ClusterMemory | None" = None
    n_reads: int = 0

    def read(self, i: int) -> Any:
        """Chunk ``i`` of X, long side first, as an array or a CSR or CSC matrix.

        A read that fails is tried again.
        """
        source = self.source
        for attempt in range(_ATTEMPTS):
            try:
                raw = self._compute(source.keys[i - source.first_chunk])
                break
            except ChunkBeingRecomputed:
                raise
            except Exception as error:
                if attempt + 1 == _ATTEMPTS:
                    raise DataReadError(
                        f"chunk {i} of X could not be read in {_ATTEMPTS} attempts: {_text(error)}"
                    ) from error
                time.sleep(_PAUSE * 2**attempt)
        self.n_reads += 1
        try:
            return prepared(raw, source.by_columns, source.n_short, source.dtype)
        except Exception as error:
            raise DataReadError(f"chunk {i} of X cannot be used: {_text(error)}") from error

    def _compute(self, key: Any) -> Any:
        from dask.local import get_sync
        from dask.optimization import cull

        tasks, _ = cull(self.tasks, [key])
        for held in tasks:
            if self.memory is not None and isinstance(self.tasks.get(held), InMemory):
                tasks[held] = self.memory.value(held)
        return get_sync(tasks, key)


@dataclass(frozen=True, eq=False)
class ClusterMemory:
    """The memory of a cluster, seen from this process."""

    client: Any
    own: Mapping[Any, Any]  # what lies in this process

    @classmethod
    def here(cls) -> "ClusterMemory":
        """To be called where a task runs, or where the client is."""
        from distributed import get_client, get_worker

        own: Mapping[Any, Any] = {}
        with suppress(ValueError):  # this is no worker
            own = get_worker().data
        try:
            return cls(get_client(), own)
        except ValueError:
            raise DataReadError(
                "chunks of X lie in the memory of a cluster that this process is not connected to "
                "any more: make X again, or connect with distributed.Client"
            ) from None

    def value(self, key: Any) -> Any:
        """The result of a task; no copy of it, if it lies in this process."""
        from distributed.utils_comm import gather_from_workers

        with suppress(KeyError):
            return self.own[key]
        began = time.monotonic()
        while time.monotonic() - began < _FETCH:
            has = self.client.sync(self.client.scheduler.who_has, keys=[key])
            if has.get(key):
                found, *_ = self.client.sync(gather_from_workers, has, rpc=self.client.rpc)
                if key in found:
                    return found[key]
            time.sleep(_PAUSE)
        raise ChunkBeingRecomputed(f"{key} is being computed again")


def _text(error: Exception) -> str:
    """An error in a message: it has to travel, and what it holds may not."""
    return f"{type(error).__name__}: {str(error)[:_LONGEST_TEXT]}"


def prepared(raw: Any, by_columns: bool, n_short: int, dtype: np.dtype) -> Any:
    """A chunk in good order, long side first."""
    if hasattr(raw, "to_scipy_sparse"):
        raw = raw.to_scipy_sparse()
    if hasattr(raw, "to_numpy") and not isinstance(raw, np.ndarray):
        raw = raw.to_numpy()
    if np.ma.is_masked(raw):
        raise TypeError("it has masked entries: fill them first, as dask.array.ma.filled does")
    if raw.ndim != 2:
        raise ValueError(f"it has {raw.ndim} dimension(s); expected rows and columns")
    X = raw.T if by_columns else raw
    if X.shape[1] != n_short:
        sides = "rows" if by_columns else "columns"
        raise ValueError(f"it has {X.shape[1]} {sides}; expected {n_short}")
    if sp.issparse(X):
        X = X if X.format in ("csr", "csc") else X.tocsr()
        X = X.astype(dtype, copy=False)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return X
    X = np.asarray(X).astype(dtype, copy=False)
    # What was sent may lie at odd addresses, and BLAS would copy it at every product.
    X = np.require(X, None, "A")
    return X if X.flags.forc else np.ascontiguousarray(X)


class Ahead:
    """Chunks in the order in which they will be wanted; the next is read ahead, in a thread."""

    def __init__(self, reader: Reader, chunks: Sequence[int]) -> None:
        self._reader, self._following = reader, iter(dict.fromkeys(chunks))
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="nmfmerge-read")
        self._reading: dict[int, Future[Any]] = {}
        self._last: tuple[int, Any] | None = None
        self._read_next()

    def take(self, chunk: int) -> Any:
        """The chunk; repeated calls return it again until another one is taken."""
        if self._last is None or self._last[0] != chunk:
            self._last = None  # while it waits there are two in memory, not three
            self._last = (chunk, self._reading.pop(chunk).result())
            self._read_next()
        return self._last[1]

    def close(self) -> None:
        """Read no further."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _read_next(self) -> None:
        chunk = next(self._following, None)
        if chunk is not None:
            self._reading[chunk] = self._pool.submit(self._reader.read, chunk)


class Store:
    """The blocks of X that a shard has, within the memory of its process.

    Parameters
    ----------
    reader : Reader
        Reads chunks.
    limit : int
        Bytes of memory of the process.
    """

    def __init__(self, reader: Reader, limit: int) -> None:
        self.reader, self.limit = reader, limit
        self.spans: Sequence[Span] = [
            Span(range(chunk, chunk + 1)) for chunk in reader.source.chunks
        ]
        self.n_bytes = 0  # of X processed so far
        self._exponent = 0  # X / 4ᵏ is factorized
        self._kept: dict[int, DataMatrix] = {}  # by the number of their span
        self._scratch: dict[str, np.ndarray] = {}  # of products of sparse blocks

    def lay_out(self, spans: Sequence[Span]) -> None:
        """Have these spans instead of whole chunks, of which those that were kept are kept.

        That is before an exponent is set: kept chunks may be divided by it.
        """
        chunks = {self.spans[i].chunks.start: matrix.X for i, matrix in self._kept.items()}
        self.spans, self._kept = spans, {}
        most = _DROP_FROM * self.limit
        for i, span in enumerate(spans):
            if all(chunk in chunks for chunk in span.chunks):
                # Several are copied, and not all may have been copies of our own.
                if len(span.chunks) == 1 or _used_memory(most) < most:
                    self._kept[i] = self._wrap(_block(span, chunks.__getitem__))
                if span.band is None:  # else they are the same memory
                    for chunk in span.chunks:
                        del chunks[chunk]

    def passing(
        self, wanted: Sequence[int]
    ) -> Generator[tuple[int, Callable[[], DataMatrix]], None, None]:
        """Yield each block of a pass with a function that returns it."""
        self._make_room()
        absent = [chunk for i in wanted if i not in self._kept for chunk in self.spans[i].chunks]
        if not absent:
            for i in wanted:
                yield i, lambda i=i: self._taken(i, None)  # type: ignore[misc]
            return
        with kept_memory(), closing(Ahead(self.reader, absent)) as ahead:
            for i in wanted:
                yield i, lambda i=i: self._taken(i, ahead)  # type: ignore[misc]

    def set_exponent(self, exponent: int) -> None:
        """Say by what X is divided."""
        if exponent != self._exponent:
            self._exponent = exponent
            self._kept = {i: self._wrap(matrix.X) for i, matrix in self._kept.items()}

    def _taken(self, i: int, ahead: Ahead | None) -> DataMatrix:
        matrix = self._kept.get(i)
        if matrix is None:
            assert ahead is not None
            span = self.spans[i]
            matrix = self._wrap(_block(span, ahead.take))
            if self._keeps(i, matrix.X if span.band is None else ahead.take(span.chunks[0])):
                self._kept[i] = matrix
        self.n_bytes += size_of(matrix.X)
        return matrix

    def _keeps(self, i: int, X: Any) -> bool:
        """True if there is memory to keep a block, and for a band its whole chunk X."""
        span = self.spans[i]
        if span.band is not None and span.band.start > 0:
            return i - 1 in self._kept
        used = _used_memory(REFUSE_FROM * self.limit)
        if used > REFUSE_FROM * self.limit:
            raise TooLittleMemory(
                f"{_named(span.chunks)} of X has {size_of(X) / 1e6:.0f} MB and this process has "
                f"{used / 1e6:.0f} of {self.limit / 1e6:.0f} MB in use"
            )
        return used + size_of(X) < _KEEP_UP_TO * self.limit

    def _wrap(self, X: Any) -> DataMatrix:
        if sp.issparse(X):
            return SparseData(X, self._exponent, self._scratch)
        kind = WeightedBlock if self.reader.source.weighted else DenseData
        return kind(X, self._exponent)

    def _make_room(self) -> None:
        """Keep fewer chunks if factors need the memory, and no incomplete ones.

        A band holds its whole chunk, and a pass that was given up may have kept some only.
        """
        most = _DROP_FROM * self.limit
        over = _used_memory(most) - most
        while over > 0 and self._kept:
            _, matrix = self._kept.popitem()
            over -= size_of(matrix.X)
        absent = {span.chunks[0] for i, span in enumerate(self.spans) if i not in self._kept}
        for i in [i for i in self._kept if self.spans[i].chunks[0] in absent]:
            del self._kept[i]


def _block(span: Span, chunk: Callable[[int], Any]) -> Any:
    """The rows of a span, from its chunks."""
    parts = [chunk(i) for i in span.chunks]
    for i, X, length in zip(span.chunks, parts, span.lengths, strict=False):  # or not known yet
        if X.shape[0] != length:
            raise DataReadError(f"chunk {i} of X had {length} rows before and has {X.shape[0]} now")
    if span.band is not None:
        return _rows(parts[0], span.band)
    if len(parts) == 1:
        return parts[0]
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format=parts[0].format)
    return np.concatenate(parts)


def _named(chunks: range) -> str:
    return f"chunk {chunks[0]}" + (f" to {chunks[-1]}" if len(chunks) > 1 else "")


def _rows(X: Any, band: slice) -> Any:
    """Some rows of an array or a CSR matrix, where they lie."""
    if not sp.issparse(X):
        return X[band]
    indptr = X.indptr[band.start : band.stop + 1]
    stored = slice(indptr[0], indptr[-1])
    rows = type(X)((band.stop - band.start, X.shape[1]), dtype=X.dtype)
    # Given to the constructor, they would be copied.
    rows.data, rows.indices, rows.indptr = X.data[stored], X.indices[stored], indptr - indptr[0]
    rows.has_canonical_format = True
    return rows


def size_of(X: Any) -> int:
    """Bytes of an array or a compressed matrix."""
    if sp.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.nbytes)


def portable_size(X: Any) -> int:
    """Bytes of an array or a compressed matrix with indices of four bytes, whatever it has."""
    if sp.issparse(X):
        return int(X.nnz * (X.dtype.itemsize + 4) + 4 * X.shape[0])
    return int(X.nbytes)


def _used_memory(most: float) -> int:
    """Bytes of this process; where they seem to be more than ``most``, without what is free."""
    used = int(psutil.Process().memory_info().rss)
    if used > most:
        give_back()
        used = int(psutil.Process().memory_info().rss)
    return used
