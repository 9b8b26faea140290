"""The arithmetic: the same operations on NumPy arrays, on tensors and on factors in shards.

`interface` says what a backend offers. Compiled loops for NumPy arrays (`numba`), tensors (`torch`)
and factors in shards (`shards`) offer it under the same names, and so does `reference`, which is
plain NumPy, written for clarity. `threads` shares out work. Nothing here sees the data matrix.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # mypy checks here that each backend has all that it says it has
    from nmfmerge.backends import numba, reference, shards, torch
    from nmfmerge.backends.entrywise import EntrywiseBackend
    from nmfmerge.backends.interface import (
        Backend,
        ForesightBackend,
        MultiplicativeBackend,
        SpreadBackend,
        SubproblemBackend,
    )

    _numba: Backend = numba
    _torch: Backend = torch
    _shards: Backend = shards
    _reference: Backend = reference
    _numba_multiplies: MultiplicativeBackend = numba
    _torch_multiplies: MultiplicativeBackend = torch
    _reference_multiplies: MultiplicativeBackend = reference
    _numba_solves: SubproblemBackend = numba
    _torch_solves: SubproblemBackend = torch
    _reference_solves: SubproblemBackend = reference
    _numba_sees_entries: EntrywiseBackend = numba
    _reference_sees_entries: EntrywiseBackend = reference
    _numba_spreads: SpreadBackend = numba
    _torch_sees_entries: EntrywiseBackend = torch
    _torch_spreads: SpreadBackend = torch
    _reference_spreads: SpreadBackend = reference
    _shards_foresee: ForesightBackend = shards
