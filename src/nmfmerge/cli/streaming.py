"""The options for data that are larger than memory: streamed on this machine, or on a cluster."""

import argparse
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nmfmerge.arguments.errors import ArgumentError, Message
from nmfmerge.backends.numba import available_threads
from nmfmerge.cli.common import reading_options
from nmfmerge.datasets.base import Dataset
from nmfmerge.io.bands import Workers
from nmfmerge.io.errors import FormatError, TooLarge, library, one_line
from nmfmerge.io.lazy import can_stream, opened
from nmfmerge.io.memory import parse_size
from nmfmerge.io.registry import read
from nmfmerge.machine import machine_memory
from nmfmerge.matrices.base import TooLittleMemory
from nmfmerge.results.lazy_factors import LARGEST
from nmfmerge.storage.provenance import versions

_TIMEOUT = 10  # seconds for a scheduler to answer
_W_SHARE = 16  # of the memory that a factor may take without being mapped from a file


def add_streaming(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    group = parser.add_argument_group("data larger than memory, by Dask (.zarr, .h5, .npy, .h5ad)")
    group.add_argument(
        "--memory", type=_size, metavar="SIZE",
        help="leave the data on disk and stream them within this memory limit, such as 8GB",
    )  # fmt: skip
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="stream them on the workers of this Dask scheduler, such as tcp://host:8786",
    )


def _size(text: str) -> str:
    """A size, kept as typed."""
    try:
        parse_size(text, "memory")
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error.problem}: {error.fix}") from None
    return text


def streams(given: argparse.Namespace) -> bool:
    """True if data are streamed instead of read."""
    return given.memory is not None or given.scheduler is not None


def streaming_words(given: argparse.Namespace) -> list[str]:
    """The options, as they are typed."""
    words = []
    for name in ("memory", "scheduler"):
        if (value := getattr(given, name)) is not None:
            words += [f"--{name}", value]
    return words


def open_data(given: argparse.Namespace) -> Dataset:
    """Read the data file, or open it lazily where it is streamed."""
    options = reading_options(given)
    if streams(given):
        return opened(given.file, workers_of(given), **options)
    try:
        return read(given.file, **options)
    except TooLarge as error:
        if not can_stream(given.file, **options):
            raise
        raise FormatError(
            Message(
                "{error}; or leave it on disk and stream it with {option}",
                error=error,
                option=suggested(),
            )
        ) from None


def suggested() -> str:
    """The option for about half of the memory of this machine."""
    return f"--memory {max(1, machine_memory() // (2 * 10**9))}GB"


@contextmanager
def streaming(given: argparse.Namespace) -> Iterator[None]:
    """Set up Dask for a fit with streamed data: memory, threads, and the cluster."""
    if not streams(given):
        yield
        return
    if given.device is not None:
        raise ValueError(
            f"--device {given.device} cannot be used with data that are streamed: leave out one "
            "of them"
        )
    dask = library("dask", "data", "Dask", "dask", doing="streaming")
    settings: dict[str, Any] = {}
    if given.memory is not None:
        settings["nmfmerge.memory"] = f"{parse_size(given.memory)}B"
    with dask.config.set(settings), _client(given.scheduler):
        yield


@contextmanager
def _client(address: str | None) -> Iterator[None]:
    """Connect to a scheduler, and make it the one that Dask uses until the end."""
    if address is None:
        yield
        return
    distributed = library("distributed", "data on a cluster", "Dask", "dask", doing="streaming")
    _check_address(address)
    try:  # one that fails would stay the one that Dask uses
        distributed.Client(address, timeout=_TIMEOUT, set_as_default=False).close()
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise ValueError(
            f"--scheduler {address} does not answer ({one_line(error)}): check the address, and "
            "that `dask scheduler` runs there"
        ) from None
    with distributed.Client(address, timeout=_TIMEOUT) as client:
        if not client.nthreads():
            raise ValueError(
                f"--scheduler {address} has no workers: start some with "
                f"`{shlex.join(['dask', 'worker', address])}`"
            )
        yield


def _check_address(address: str) -> None:
    """Refuse a malformed address: a client would try it for a long time."""
    from distributed.comm import parse_address, parse_host_port
    from distributed.comm.registry import backends

    try:
        scheme, place = parse_address(address)
        parse_host_port(place)
        if scheme not in backends:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"--scheduler {address!r} is not an address: write one such as tcp://host:8786"
        ) from None


def workers_of(given: argparse.Namespace) -> Workers:
    """Memory and threads of the smallest worker, or of this process."""
    memory = float("inf") if given.memory is None else parse_size(given.memory)
    n_threads = n_all = available_threads()
    if given.scheduler is not None:
        from distributed import default_client

        from nmfmerge.matrices.dask.opening import least_memory

        client = default_client()
        memory = min(memory, least_memory(client))
        n_threads, n_all = max(client.nthreads().values()), sum(client.nthreads().values())
    memory = machine_memory() if memory == float("inf") else int(memory)
    return Workers(memory, n_threads, n_all)


def left_out_words(output: Path) -> str:
    """The files missing from a folder because the data were streamed, for the terminal."""
    parts = ["the residual", "the spread over starts", "the comparison with other fits"]
    parts += ["X in result.h5ad"] * (output / "result.h5ad").exists()
    return f"\nleft out, as the data were streamed: {', '.join(parts)}"


def in_words(error: Exception, given: argparse.Namespace) -> str:
    """The error of streaming in words, with a fix for the command line."""
    if not isinstance(error, TooLittleMemory):
        return str(error)
    fix = "give the workers more" if given.scheduler else "give it more memory with --memory"
    return f"{error.args[0]}: {fix}"


def most_of_a_factor(given: argparse.Namespace) -> float:
    """Bytes of a factor that this process can hold; a larger one is mapped from a file."""
    own = machine_memory() if given.memory is None else parse_size(given.memory)
    return min(LARGEST, own / _W_SHARE)


def how_streamed(given: argparse.Namespace, data: Dataset) -> dict[str, Any]:
    """The sentence in the report."""
    X = data.X
    axis = int(X.numblocks[1] > 1)
    length, what = X.chunksize[axis], ("rows", "columns")[axis]
    where = f"on the cluster {given.scheduler}" if given.scheduler else "by this process"
    memory = f" with {given.memory} of memory" if given.memory else ""
    return {
        "streamed": {"memory": given.memory, "scheduler": given.scheduler},
        "versions": versions("dask", "distributed", "h5py", "zarr"),
        "notes": [
            f"The data stayed on disk and were streamed {where}{memory}, in bands of {length:,} "
            f"{what}. Standard NMF and one component fewer and more were not fitted to compare."
        ],
    }
