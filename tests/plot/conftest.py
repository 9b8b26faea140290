import numpy as np
import pytest

from nmfmerge import datasets, nmf, nmf_merge
from nmfmerge.datasets import Axis, Dataset


@pytest.fixture(scope="session")
def run():
    """A small LC-MS-like run and its factorization, with fitting errors in the history."""
    data = datasets.lcms_like(60, 90, 5)
    return data, nmf_merge(data.X, 5, callback=lambda p: p.fitting_error < 0)


@pytest.fixture(scope="session")
def plain_run(run):
    data, _ = run
    return nmf(data.X, 5, init="random", random_state=1)


@pytest.fixture(scope="session")
def movie():
    """Pixels × time, from blobs that blink."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:8, :6]
    blobs = [np.exp(-((y - a) ** 2 + (x - b) ** 2) / 3).ravel() for a, b in ((2, 1), (6, 4))]
    X = np.stack(blobs, axis=1) @ rng.random((2, 30))
    rows, columns = Axis("pixel", np.arange(48)), Axis("time", np.arange(30) / 10, "s")
    data = Dataset("movie", X, 2, rows, columns, image_shape=(8, 6), image_order="F")
    return data, nmf(X, 2)


@pytest.fixture(scope="session")
def counts():
    """Named rows and named columns."""
    rng = np.random.default_rng(0)
    X = rng.gamma(0.3, 1, (20, 3)) @ rng.gamma(0.3, 1, (3, 15))
    genes = np.array([f"GENE{i}" for i in range(20)])
    tumours = np.array([f"tumour ${i}$" for i in range(15)])
    data = Dataset("counts", X, 3, Axis("gene", genes), Axis("tumour", tumours))
    return data, nmf(X, 3)
