"""From a Dask array to a data matrix: chunks along one axis, dealt out into shards, surveyed."""

import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import cloudpickle
import dask
import numpy as np
import psutil
import scipy.sparse as sp
from dask.core import flatten

from nmfmerge.backends.numba import process_threads
from nmfmerge.machine import machine_memory
from nmfmerge.matrices.dask.chunk_reader import REFUSE_FROM, InMemory, Source
from nmfmerge.matrices.dask.executor import Executor, Threads, runs
from nmfmerge.matrices.dask.matrix import DaskData
from nmfmerge.matrices.dask.reductions import Facts, Survey
from nmfmerge.matrices.dask.shard import PassRequest
from nmfmerge.matrices.dask.weighted import WeightedDask, side_by_side
from nmfmerge.matrices.scale import float_type, unit_exponent

_SHARE = 0.25  # of the memory of a process that one chunk may take
_GOOD_SIZE = 32e6  # bytes of a chunk


def open_dask(X: Any, weights: Any = None, weight_unit: float = 1.0) -> DaskData:
    """A Dask array of real numbers as a data matrix, after a first pass over it.

    NaN is missing. ``weights`` from 0 to 1 are a Dask array of the shape of X, which is NaN where
    they are zero; those of the user are these times ``weight_unit``.
    """
    X, by_columns = in_chunks_along_one_axis(X)
    dtype, weighted = float_type(X.dtype), weights is not None
    client = active_client()
    memory = _memory() if client is None else least_memory(client)
    _check_chunks(X, by_columns, memory / 2 if weighted else memory)
    chunks, on_columns = X, by_columns  # as a shard has them
    if weighted:
        chunks, on_columns = side_by_side(X, weights, by_columns), False
    executor: Executor
    if client is None:
        _check_memory(_memory())
        sources = _sources(
            chunks, dtype, on_columns, _n_shards(None), lambda tasks: tasks, weighted
        )
        executor = Threads(sources, _memory())
    else:
        from nmfmerge.matrices.dask.cluster import Cluster, computed

        persisted = computed(futures_of(chunks))
        sources = _sources(
            chunks, dtype, on_columns, _n_shards(client), cloudpickle.dumps, weighted
        )
        executor = Cluster(client, sources, _homes(client, chunks, sources), persisted)
    try:
        reply = executor.deal_with([PassRequest(reductions=[Survey()])] * len(sources))
        facts: list[Facts] = reply.answers[0]
        _check(facts, by_columns)
    except BaseException:
        executor.release()
        raise
    missing = any(fact.weights is not None for fact in facts)
    kind = WeightedDask if missing else DaskData
    data = kind(X, dtype, by_columns, executor, [source.chunks for source in sources])
    data.count(reply)
    data.weight_unit = weight_unit
    if isinstance(data, WeightedDask):
        data.entry_weights = weights
    data.know(facts, unit_exponent(max(fact.high for fact in facts)))
    return data


def in_chunks_along_one_axis(X: Any) -> tuple[Any, bool]:
    """X with chunks that are whole rows, or whole columns; and whether they are columns.

    Chunks along both axes are put together, within bands that are read as one anyway.
    """
    row_chunks, column_chunks = X.numblocks
    if (row_chunks > 1) != (column_chunks > 1):
        by_columns = column_chunks > 1
    else:  # a side of unknown length is the one to go along
        by_columns = bool(np.isnan(X.shape[1]) or X.shape[1] > X.shape[0])
    _check_known(X.shape[0 if by_columns else 1], by_columns)
    if row_chunks > 1 and column_chunks > 1:
        X = X.rechunk({0: -1} if by_columns else {1: -1})
    return X, by_columns


def _check_known(length: float, by_columns: bool) -> None:
    """Refuse chunks whose shared side Dask does not know the length of."""
    if np.isnan(length):
        kind, other = ("columns", "rows") if by_columns else ("rows", "columns")
        raise ValueError(
            f"X is in chunks of {kind}, and Dask does not know how many {other} it has: call "
            "X.compute_chunk_sizes() first, which counts them in one pass over X"
        )


def _check_chunks(X: Any, by_columns: bool, memory: float) -> None:
    """Refuse chunks of which a process of so much memory cannot hold several."""
    axis = 1 if by_columns else 0
    lengths = [length for length in X.chunks[axis] if not np.isnan(length)]
    line = X.shape[1 - axis] * float_type(X.dtype).itemsize  # bytes of a row, or column
    most = _SHARE * memory
    is_sparse = sp.issparse(X._meta) or hasattr(X._meta, "to_scipy_sparse")
    if is_sparse or not lengths or max(lengths) * line <= most:
        return
    kind, fit = ("columns" if by_columns else "rows"), max(1, int(min(most, _GOOD_SIZE) / line))
    whole = f"{{{axis}: {fit}, {1 - axis}: -1}}"
    raise ValueError(
        f"chunks of whole {kind} of X take {max(lengths) * line / 1e9:.2g} GB each, and several of "
        f"them have to fit into {memory / 1e9:.2g} GB of memory: pass X.rechunk({whole}), best "
        "stored like that, or give it more memory; if chunks are sparse matrices, make X with "
        "meta=scipy.sparse.csr_matrix((0, 0))"
    )


def _check_memory(memory: int) -> None:
    """Refuse a limit that leaves no room for X."""
    used = psutil.Process().memory_info().rss
    if used > REFUSE_FROM * memory:
        raise ValueError(
            f"{memory / 1e6:.0f} MB of memory are too little: this process has {used / 1e6:.0f} MB "
            "before it reads any of X; allow at least "
            f"{math.ceil(used / 5e8) / 2 + 0.5:g} GB"
        )


def least_memory(client: Any) -> float:
    """Bytes of the worker of a cluster that has least; infinite if there is no limit."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return min((worker["memory_limit"] or np.inf for worker in workers), default=np.inf)


def active_client() -> Any:
    """The client of `distributed` that is active, unless another scheduler was asked for.

    None within a task of a cluster: it holds a thread that its shards would wait for.
    """
    asked = dask.config.get("scheduler", None)
    client = None
    if "distributed" in sys.modules:
        from distributed import Client, default_client, get_worker

        with suppress(ValueError):
            get_worker()
            return None
        if isinstance(asked, Client):
            client = asked
        elif asked in (None, "distributed", "dask.distributed"):
            with suppress(ValueError):
                client = default_client()
    if client is not None and client.asynchronous:
        raise TypeError(
            "the active client of distributed is asynchronous, and a fit waits for its workers: "
            "use a distributed.Client without asynchronous=True"
        )
    return client


def _n_shards(client: Any) -> int:
    """How many shards there may be."""
    asked = dask.config.get("nmfmerge.shards", None)
    if asked is not None:
        if not isinstance(asked, int) or asked < 1:
            raise ValueError(
                f"nmfmerge.shards={asked!r} in Dask's configuration; expected a whole number of 1 "
                "or more"
            )
        return asked
    return process_threads() if client is None else max(1, sum(client.nthreads().values()))


def _sources(
    X: Any,
    dtype: np.dtype,
    by_columns: bool,
    n_shards: int,
    pack: Callable[[dict[Any, Any]], Any],
    weighted: bool = False,
) -> list[Source]:
    """The chunks of each shard, with their tasks as ``pack`` returns them."""
    axis = 1 if by_columns else 0
    in_memory = {future.key for future in futures_of(X)}
    (X,) = dask.optimize(X)  # which leaves out what is computed already
    keys = list(flatten(X.__dask_keys__()))
    lengths = [1 if np.isnan(length) else length for length in X.chunks[axis]]
    graph, n_short = X.__dask_graph__(), X.shape[1 - axis]
    sources = []
    for run in runs(lengths, min(n_shards, len(keys))):
        own = keys[run.start : run.stop]
        tasks = dict(graph.cull(set(own)).to_dict())
        needed = set(own).union(*(task.dependencies for task in tasks.values()))
        tasks.update(dict.fromkeys(needed & in_memory, InMemory()))
        sources.append(Source(pack(tasks), own, run.start, by_columns, n_short, dtype, weighted))
    return sources


def futures_of(X: Any) -> list[Any]:
    """Those that chunks of X are kept by, in the memory of a cluster."""
    if "distributed" not in sys.modules:
        return []
    from distributed import futures_of as found

    return list(found(X))


def _homes(client: Any, X: Any, sources: Sequence[Source]) -> list[str | None] | None:
    """Where chunks that are computed already lie, of each shard the worker that has most."""
    if not futures_of(X):
        return None
    has = client.who_has(futures_of(X))
    homes: list[str | None] = []
    for source in sources:
        found = Counter(worker for key in source.keys for worker in has.get(key, ()))
        homes.append(found.most_common(1)[0][0] if found else None)
    return homes


def _memory() -> int:
    """Bytes that this process may use: those asked for, or what is free of the machine's."""
    asked = dask.config.get("nmfmerge.memory", None)
    if asked is not None:
        try:
            return int(dask.utils.parse_bytes(asked))
        except ValueError:
            raise ValueError(
                f"nmfmerge.memory={asked!r} in Dask's configuration is not a size: write one such "
                "as '8GB'"
            ) from None
    free = int(psutil.virtual_memory().available + psutil.Process().memory_info().rss)
    return min(free, machine_memory())


def _check(facts: Sequence[Facts], by_columns: bool) -> None:
    """Refuse values that cannot be factorized, with their place."""
    first = 0
    for fact in facts:
        if fact.wrong:
            i, j, value = fact.wrong.split()
            row, column = first + int(i), int(j)
            place = f"X[{column}, {row}]" if by_columns else f"X[{row}, {column}]"
            where = f"{place} is {value}, in chunk {fact.chunk}"
            if not (np.isfinite(fact.low) and np.isfinite(fact.high)):
                raise ValueError(
                    f"X contains NaN or infinity ({where}); NMF needs finite values: drop or fill "
                    "those entries first"
                )
            raise ValueError(
                f"Negative values in data passed to NMF ({where}); X must be nonnegative: shift "
                "it, clip it or take magnitudes first"
            )
        first += fact.n_rows
    if first == 0:
        raise ValueError("X is empty: it needs rows and columns")
