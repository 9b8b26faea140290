"""The first run on a machine, which compiles the kernels, gives the bits of every later one."""

import os
import subprocess
import sys

import pytest

from nmfmerge.solvers import SOLVERS

FITS = f"""
import hashlib, warnings
import numpy as np, scipy.sparse as sp
from nmfmerge import datasets, nmf_merge, transform
warnings.simplefilter("ignore")
X = datasets.lcms_like(90, 130, 6).X
X[X < 0.02] = 0
for kind in (np.float64, np.float32, sp.csr_array):
    for solver in {sorted(SOLVERS)}:
        fit = nmf_merge(
            kind(X), 6, init="random", n_init=1, solver=solver, max_iter=60, tol=0
        )
        bits = fit.W.tobytes() + fit.H.tobytes() + transform(kind(X), fit.H).tobytes()
        print(kind.__name__, solver, hashlib.sha256(bits).hexdigest())
"""


@pytest.mark.slow
def test_kernels_that_were_just_compiled_give_the_bits_of_kernels_from_the_cache(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    runs = [
        subprocess.run(
            [sys.executable, "-c", FITS],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        ).stdout.splitlines()
        for _ in range(2)
    ]
    assert any(tmp_path.rglob("*.nbc"))  # what the second run used
    assert len(runs[0]) == 3 * len(SOLVERS)
    assert runs[0] == runs[1]
