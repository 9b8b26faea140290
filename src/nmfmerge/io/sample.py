"""A hash by which a file that is too large to be read for it is recognised: names, sizes, samples.

The samples are blocks at even distances over all files of a data set; a change of values between
them is not seen.
"""

import hashlib
import os
from pathlib import Path

from nmfmerge.io.parts import files_of

_SAMPLES = 256
_BLOCK = 1 << 16  # bytes of a sample


def sample_digest(path: Path) -> str:
    """Hash names and sizes of the files of a data set, and samples of what is in them."""
    total = hashlib.sha256()
    files = [(file, file.stat().st_size) for file in files_of(path)]
    for file, size in files:
        name = os.fsencode(file.relative_to(path).as_posix()) if path.is_dir() else b""
        total.update(b"%b\0%d\0" % (name, size))
    step = max(_BLOCK, sum(size for _, size in files) // _SAMPLES)
    next_sample = 0  # counted from the beginning of a file
    for file, size in files:
        if next_sample < size:
            with file.open("rb") as opened:
                while next_sample < size:
                    opened.seek(next_sample)
                    total.update(opened.read(_BLOCK))
                    next_sample += step
        next_sample -= size
    return total.hexdigest()
