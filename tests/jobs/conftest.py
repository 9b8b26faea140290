import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

anndata = pytest.importorskip("anndata")


def make_cells(n_cells=240, n_genes=300, n_programs=4, depth=1500, seed=0):
    """An AnnData of counts from known programmes, with them; the last ten genes are empty."""
    rng = np.random.default_rng(seed)
    spectra = 0.15 * rng.gamma(1.0, size=(n_programs, n_genes))
    for k, spectrum in enumerate(spectra):
        own = np.arange(k * 25, (k + 1) * 25)
        spectrum[own] += rng.gamma(3.0, 1.5, 25)
    spectra[:, -10:] = 0
    spectra /= spectra.sum(axis=1, keepdims=True)
    usages = rng.dirichlet(np.full(n_programs, 0.25), n_cells)
    depths = rng.lognormal(np.log(depth), 0.3, (n_cells, 1))
    counts = rng.poisson(depths * (usages @ spectra)).astype(np.float32)
    adata = anndata.AnnData(
        sp.csr_matrix(counts),
        obs=pd.DataFrame(index=[f"cell{i}" for i in range(n_cells)]),
        var=pd.DataFrame(index=[f"GENE{i}" for i in range(n_genes)]),
    )
    return adata, usages, spectra


@pytest.fixture(scope="session")
def made():
    return make_cells()


@pytest.fixture
def adata(made):
    return made[0].copy()
