"""What all kernels share: the block width and the compiler's settings."""

import numba

BLOCK = 64

# Sums may be reordered and multiply-adds fused; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}

kernel = numba.njit(cache=True, nogil=True, fastmath=FASTMATH)


def n_blocks(p: int) -> int:
    """Count the blocks that ``p`` columns make."""
    return -(-p // BLOCK)
