"""Lists the variables of a MATLAB file and sends one of them; run as a process of its own.

Arguments: the file, the bytes it may take, and the parent's module path as JSON. Standard output:
a line of JSON with the variables; then, for the name that comes on standard input, a line of JSON
and the arrays in NumPy's format. Nothing of nmfmerge is imported, so that it starts quickly.
"""

import json
import sys
from typing import Any

_OWN = 2**28  # bytes that Python and its libraries may take beside the data


def main(path: str, limit: int) -> None:
    """Answer on standard output."""
    import scipy.io  # before the limit, which it would take most of

    _limit_memory(3 * limit + _OWN)
    try:
        _write_line({"variables": [list(found) for found in scipy.io.whosmat(path)]})
        name = json.loads(sys.stdin.readline())
        value = scipy.io.loadmat(path, variable_names=[name])[name]
    except MemoryError:
        _write_line({"out_of_memory": True})
    except Exception as error:
        _write_line({"error": str(error) or type(error).__name__})
    else:
        _send(value)


def _send(value: Any) -> None:
    """A matrix as its arrays: one, or the three of a sparse one."""
    import numpy as np
    from scipy.sparse import issparse

    sparse = issparse(value)
    value = value.tocsc() if sparse else value
    arrays = [value.data, value.indices, value.indptr] if sparse else [value]
    _write_line({"n_arrays": len(arrays), "shape": value.shape if sparse else None})
    for array in arrays:
        np.lib.format.write_array(_Pipe(), array, allow_pickle=False)
    sys.stdout.buffer.flush()


class _Pipe:
    """Standard output without a position, which NumPy asks a file for."""

    def write(self, part: bytes) -> int:
        return sys.stdout.buffer.write(part)


def _limit_memory(more: int) -> None:
    """Make allocations fail beyond what is in use now and ``more`` bytes, where this is Linux."""
    try:
        import resource

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        wanted = used + more
        resource.setrlimit(resource.RLIMIT_AS, (min(wanted, hard) if hard > 0 else wanted, hard))
    except (ImportError, OSError, ValueError):
        pass


def _write_line(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[3])
    main(sys.argv[1], int(sys.argv[2]))
