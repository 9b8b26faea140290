import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings

settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("fixed")


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def real():
    """Loads a real data matrix from the folder NMFMERGE_DATA, scaled as the paper has it."""
    folder = os.environ.get("NMFMERGE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("NMFMERGE_DATA names no folder with the real data")

    def load(name):
        if name.endswith("_sparse"):
            return sp.load_npz(Path(folder) / f"{name}.npz")
        X = np.load(Path(folder) / f"{name}.npz")["X"].astype(np.float64)
        return X / X.max() if name.startswith("lcms") else X

    return load


@pytest.fixture
def low_rank(rng):
    """A dense 60 × 45 matrix of rank 5 with a little noise."""
    return rng.random((60, 5)) @ rng.random((5, 45)) + 0.05 * rng.random((60, 45))
