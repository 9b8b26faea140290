"""kill -9 at random moments, then --resume: nothing is lost and the bits are the same."""

import os
import random
import select
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from nmfmerge import datasets
from nmfmerge.storage import folder

KILLS = 20

# Runs the command in processes forked from one that has imported and compiled all, so that kills
# hit the fit, which saves its state as often as it can: they hit it there, too.
SERVER = """
import os, sys
from nmfmerge.cli import main
from nmfmerge.storage import state_file

state_file._MIN_INTERVAL, state_file._MAX_SAVE_SHARE = 0.0, 1.0

def fit(name):
    return main(["fit", "run.npy", "-r", "8", "--solver", "hals", "--tol", "1e-5",
                 "--init", "random", "--starts", "2", "--max-iter", "50000",
                 "-o", name, "--resume", "--no-report"])

answers, sys.stdout = sys.stdout, open(os.devnull, "w")
print(fit("whole"), file=answers, flush=True)
for name in sys.stdin:
    child = os.fork()
    if not child:
        os._exit(fit(name.strip()))
    print(child, file=answers, flush=True)
    print(os.waitpid(child, 0)[1], file=answers, flush=True)
"""


class Runs:
    """The command in processes of its own, one after the other."""

    def __init__(self, path):
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER], cwd=path, bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self.status() == 0  # of "whole"

    def start(self, name):
        """Start a run; return the number of its process."""
        self.server.stdin.write(f"{name}\n".encode())
        return int(self.server.stdout.readline())

    def ends_within(self, seconds):
        return bool(select.select([self.server.stdout], [], [], seconds)[0])

    def status(self):
        """How the run ended, when it has."""
        return int(self.server.stdout.readline())

    def whole(self, name):
        """A run to its end; return its status."""
        self.start(name)
        return self.status()


@pytest.fixture
def runs(tmp_path):
    np.save(tmp_path / "run.npy", datasets.lcms_like(150, 200, 10).X)
    runs = Runs(tmp_path)
    yield runs
    runs.server.communicate()  # nothing more: it ends


def finished(tmp_path, name):
    """The fit in a folder, which is complete if it is there at all."""
    path = tmp_path / name
    return folder.read(path).result if path.exists() else None


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked on this system")
def test_runs_killed_at_random_moments_resume_to_the_same_bits(tmp_path, runs):
    whole = finished(tmp_path, "whole")
    began = time.monotonic()
    assert runs.whole("again") == 0
    seconds = time.monotonic() - began
    rng = random.Random(0)
    kills, resumed, n = 0, 0, 0
    while kills < KILLS:
        n += 1
        while finished(tmp_path, f"out{n}") is None:
            process = runs.start(f"out{n}")
            if not runs.ends_within(rng.uniform(0.05, 1.0) * seconds):
                resumed += (tmp_path / f"out{n}.unfinished" / "checkpoint.npz").exists()
                os.kill(process, signal.SIGKILL)
                kills += 1
            runs.status()
            finished(tmp_path, f"out{n}")  # whole, or not there
        result = finished(tmp_path, f"out{n}")
        np.testing.assert_array_equal(result.W, whole.W)
        np.testing.assert_array_equal(result.H, whole.H)
        assert [stage.n_iter for stage in result.stages] == [s.n_iter for s in whole.stages]
        assert runs.whole(f"out{n}") == 0  # nothing to do but to tidy up
        assert not (tmp_path / f"out{n}.unfinished").exists()
    assert resumed > 0
