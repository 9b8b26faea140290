"""How much memory this process may use: that of the machine, or the limit of a container."""

import os
from collections.abc import Iterator

from nmfmerge.machine.cgroups import ControlGroups

_UNKNOWN_MACHINE = 8 * 2**30  # memory assumed if the machine does not report it


def machine_memory() -> int:
    """Bytes of memory that this process can have: the machine's, or its container's."""
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        size = 0
    return min([size if size > 0 else _UNKNOWN_MACHINE, *memory_limits(ControlGroups())])


def memory_limits(groups: ControlGroups) -> Iterator[int]:
    """Limits in bytes, in files of version 2, then of version 1."""
    for file in ("memory.max", "memory.limit_in_bytes"):
        for numbers in groups.numbers("memory", file):
            if len(numbers) == 1 and numbers[0] > 0:
                yield numbers[0]
