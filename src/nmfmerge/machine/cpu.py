"""How many cores this process may use: affinity, and the CPU quota of a container."""

import math
import os
from collections.abc import Iterator
from functools import cache

from nmfmerge.machine.cgroups import ControlGroups


@cache
def cores() -> int:
    """Cores that the system lets this process use, at least one."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    n = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min([n, *quotas(ControlGroups())]))


def quotas(groups: ControlGroups) -> Iterator[int]:
    """CPU quotas, in cores, rounded up: in files of version 2, then of version 1."""
    for files in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        for numbers in groups.numbers("cpu", *files):
            if len(numbers) == 2 and min(numbers) > 0:  # the quota is -1 where there is none
                yield math.ceil(numbers[0] / numbers[1])
