"""How a stored matrix is cut into bands, so that each of its stored chunks is read once a pass."""

from dataclasses import dataclass
from pathlib import Path

from nmfmerge.arguments.errors import Message
from nmfmerge.io.cubes import size_in_words
from nmfmerge.io.errors import FormatError
from nmfmerge.io.memory import shown_size

LARGEST = 32 * 10**6  # bytes of a band, where stored chunks allow it: larger ones are slow to get
_BANDS = 32  # bands of each thread that must fit into the memory together
_FEWEST = 4  # bands of all threads, where stored chunks are large
_EACH = 2  # bands that each thread has, at least, where stored chunks allow it


@dataclass(frozen=True)
class Workers:
    """Who reads: bytes that one process has, its threads, and those of all processes."""

    memory: int
    n_threads: int = 1
    n_all: int = 1


@dataclass(frozen=True)
class Bands:
    """Bands of whole rows (axis 0) or whole columns (axis 1), of ``length`` rows or columns."""

    axis: int
    length: int

    def chunks(self, shape: tuple[int, int]) -> tuple[int, int]:
        """The shape of a band, for Dask."""
        m, n = shape
        return (self.length, n) if self.axis == 0 else (m, self.length)


def choose_bands(
    path: Path,
    shape: tuple[int, int],
    stored: tuple[int, int],
    item_size: float,
    workers: Workers,
) -> Bands:
    """Choose bands of whole stored chunks, of up to 32 MB where that can be done.

    Parameters
    ----------
    path : Path
        The file, for messages.
    shape : tuple of int
        Of the matrix.
    stored : tuple of int
        Rows and columns of a stored chunk; 1 where any number can be read.
    item_size : float
        Bytes of an entry in memory.
    workers : Workers
        Each thread has bands of its own.

    Returns
    -------
    Bands
        Across the longer side where its bands are small enough, else across the other.
    """
    sizes = [min(stored[k], shape[k]) * shape[1 - k] * item_size for k in (0, 1)]
    longer, memory = int(shape[1] > shape[0]), workers.memory
    target, most = min(LARGEST, memory // (_BANDS * workers.n_threads)), memory // _FEWEST
    each = shape[0] * shape[1] * item_size / (_EACH * workers.n_all)
    for limit in (target, most):
        for axis in (longer, 1 - longer):
            if sizes[axis] <= limit:
                times = max(1, int(min(target, each) // sizes[axis]))
                return Bands(axis, min(times * min(stored[axis], shape[axis]), shape[axis]))
    raise _too_large(path, shape, stored, sizes, max(1.0, target / item_size), memory)


def _too_large(
    path: Path, shape: tuple[int, int], stored: tuple[int, int], sizes: list[float],
    entries: float, memory: int,
) -> FormatError:  # fmt: skip
    longer = int(shape[1] > shape[0])
    what = ("rows", "columns")[longer]
    fits = max(1, int(entries // shape[1 - longer]))
    better = (fits, shape[1]) if longer == 0 else (shape[0], fits)
    return FormatError(
        Message(
            "{path} is stored in chunks of {chunks}, so that the smallest band of whole {what} "
            "takes {size} of memory, more than a quarter of the {limit} that there are: store it "
            "again in chunks of {better}, or allow more with {memory=}",
            path=path,
            chunks=size_in_words(stored),
            what=what,
            size=shown_size(sizes[longer]),
            limit=shown_size(memory),
            better=size_in_words(better),
        )
    )
