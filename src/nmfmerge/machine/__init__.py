"""The cores and the memory that this process may use; a container may have less than its machine.

All that counts cores or memory asks here. `cgroups` reads the limits of control groups, by which
containers and batch systems share out a machine.
"""

from nmfmerge.machine.cpu import cores
from nmfmerge.machine.memory import machine_memory

__all__ = ["cores", "machine_memory"]
