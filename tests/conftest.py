import os
import signal
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread

# Processes that test side by side share the cores, also with those that they start. BLAS and
# PyTorch look at this when they are imported.
if n_processes := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // n_processes)))

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

import nmfmerge.backends.numba  # noqa: F401  (before its threads, which import from it)
from nmfmerge.backends import threads
from nmfmerge.matrices import DenseData, SparseData
from reproduce.real import load_cbcl, load_lcms, load_mhll, load_orl, load_pf1, load_samson

if n_processes:  # pytest may have imported NumPy before, for a plugin: that of zarr does
    threadpool_limits(int(os.environ["OMP_NUM_THREADS"]), user_api="blas")

settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("fixed")


@pytest.hookimpl(tryfirst=True)  # before -m chooses by markers
def pytest_collection_modifyitems(items):
    """Mark the tests that need the real data, so that ``-m real_data`` runs these alone."""
    for item in items:
        if "real" in getattr(item, "fixturenames", ()):
            item.add_marker("real_data")


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c():
    """Ctrl-C interrupts, here and in processes that tests start.

    A shell makes what it starts in the background deaf to it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def _one_torch_thread():
    """Threads cost more than they give on small tensors."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def single_operations(monkeypatch):
    """Passes made of single operations, as where products with X are long."""
    for kind in (DenseData, SparseData):
        monkeypatch.setattr(kind, "for_passes", lambda self, r: None)


class ThreePool(threads._Pool):
    """Two threads beside this one, whatever the machine has."""

    def __init__(self):
        self._queue, self._lock, self.idle = SimpleQueue(), Lock(), 2
        for _ in range(2):
            Thread(target=self._serve, daemon=True).start()


@pytest.fixture
def three_threads(monkeypatch):
    """Shares work among three threads."""
    pool = ThreePool()
    monkeypatch.setattr(threads, "_pool", lambda: pool)
    monkeypatch.setattr("nmfmerge.backends.teams.process_threads", lambda: 3)
    for module in ("backends.threads", "backends.numba.shares", "matrices.sparse"):
        monkeypatch.setattr(f"nmfmerge.{module}.available_threads", lambda: 3)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


REAL = {
    "mhll": load_mhll,
    "pf1": load_pf1,
    "cbcl": load_cbcl,
    "orl": load_orl,
    "lcms_wt15": load_lcms,
    "lcms_ko15": lambda: load_lcms("ko15"),
    "samson": load_samson,
}


@pytest.fixture(scope="session")
def real():
    """Loads a real data matrix from the folder NMFMERGE_DATA."""
    folder = os.environ.get("NMFMERGE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("NMFMERGE_DATA names no folder with the real data")
    return lambda name: REAL[name]().X


@pytest.fixture
def low_rank(rng):
    """A dense 60 × 45 matrix of rank 5 with a little noise."""
    return rng.random((60, 5)) @ rng.random((5, 45)) + 0.05 * rng.random((60, 45))
