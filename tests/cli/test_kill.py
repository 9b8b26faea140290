"""kill -9 at random moments, then --resume: nothing is lost and the bits are the same."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from nmfmerge import datasets
from nmfmerge.storage import folder

KILLS = 20


def start(tmp_path, name):
    words = ["fit", "run.npy", "-r", "12", "--solver", "hals", "--tol", "1e-5", "--init", "random",
             "--starts", "2", "--max-iter", "50000", "-o", name, "--resume",
             "--no-report"]  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", "nmfmerge", *words],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def finished(tmp_path, name):
    """The fit in a folder, which is complete if it is there at all."""
    path = tmp_path / name
    return folder.read(path).result if path.exists() else None


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_runs_killed_at_random_moments_resume_to_the_same_bits(tmp_path):
    np.save(tmp_path / "run.npy", datasets.lcms_like(400, 600, 14).X)
    began = time.monotonic()
    assert start(tmp_path, "whole").wait() == 0
    seconds = time.monotonic() - began
    whole = finished(tmp_path, "whole")
    rng = random.Random(0)
    kills, resumed, n = 0, 0, 0
    while kills < KILLS:
        n += 1
        while finished(tmp_path, f"out{n}") is None:
            process = start(tmp_path, f"out{n}")
            try:
                process.wait(timeout=rng.uniform(0.05, 1.0) * seconds)
            except subprocess.TimeoutExpired:
                resumed += (tmp_path / f"out{n}.unfinished" / "checkpoint.npz").exists()
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                kills += 1
            finished(tmp_path, f"out{n}")  # whole, or not there
        result = finished(tmp_path, f"out{n}")
        np.testing.assert_array_equal(result.W, whole.W)
        np.testing.assert_array_equal(result.H, whole.H)
        assert [stage.n_iter for stage in result.stages] == [s.n_iter for s in whole.stages]
        assert start(tmp_path, f"out{n}").wait() == 0  # nothing to do but to tidy up
        assert not (tmp_path / f"out{n}.unfinished").exists()
    assert resumed > 0
