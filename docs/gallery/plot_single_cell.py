"""
Gene programmes in single cells
===============================

Single-cell counts are a sparse matrix: cells × genes, mostly zeros. A gene programme is a set of
genes that rise together (a row of H); a cell uses several programmes (a row of W). **Which
programmes are there, and which cells use them?** From an AnnData to an AnnData; the matrix stays
sparse from start to end.
"""

import tempfile
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp

from nmfmerge import export, io, metrics, nmf, nmf_merge, plot

folder = Path(tempfile.mkdtemp())

# %%
# A file
# ------
#
# Twenty programmes, in pairs of sisters that share half their genes, as subtypes of a cell type do.
# This makes the example hard on purpose: with ten or sixteen programmes that have little in common,
# all starts gave the same result. A cell has a main programme and a little of the
# others; some types are rare. Counts are Poisson, with a different depth for each cell.

n_cells, n_genes, r = 600, 600, 20
rng = np.random.default_rng(1)
programmes = 0.1 * rng.gamma(0.3, 1.0, (r, n_genes))
for programme in programmes:
    own = rng.choice(n_genes, 25, replace=False)
    programme[own] += rng.gamma(2.0, 2.0, 25)
programmes[1::2] = 0.5 * programmes[1::2] + 0.5 * programmes[::2]
programmes /= programmes.sum(axis=1, keepdims=True)

cell_type = np.sort(rng.choice(r, n_cells, p=rng.dirichlet(np.full(r, 0.6))))
usage = 0.3 * rng.dirichlet(np.full(r, 0.1), n_cells)
usage[np.arange(n_cells), cell_type] += 0.7
depth = rng.lognormal(7.0, 0.4, (n_cells, 1))
counts = rng.poisson(depth * (usage @ programmes))

cells = pd.DataFrame(
    {"type": pd.Categorical([f"type {i:02d}" for i in cell_type])},
    index=[f"cell{i}" for i in range(n_cells)],
)
genes = [f"GENE{i}" for i in range(n_genes)]
adata = anndata.AnnData(
    sp.csr_matrix(counts, dtype=np.float32),
    obs=cells,
    var=pd.DataFrame(index=genes),
)

# %%
# Each cell is scaled to the same total, as ``sc.pp.normalize_total`` does. Zeros stay zeros. (A
# logarithm or a square root, often taken next, equalizes the noise, but programmes no longer add
# up.)

total = np.asarray(adata.X.sum(axis=1)).ravel()
adata.layers["scaled"] = sp.diags(1000 / total).astype("f4") @ adata.X
adata.write_h5ad(folder / "cells.h5ad")

# %%
# Read and fit
# ------------

data = io.read(folder / "cells.h5ad", layer="scaled")
result = nmf_merge(data.X, r)
print(result)

# %%
# Look
# ----
#
# The cells and the genes that characterize the first four programmes: not those with the largest
# weights, but those that are *specific*, with a larger weight here than in the other programmes.

plot.components(result, data, which=range(4))

# %%
# Why not the largest weights? Programmes share genes, so the same genes would repeat.

top = pd.DataFrame(export.top_names(result, data, "gene", n_top=10))
heaviest = np.argsort(-result.H, axis=1)[:, :10]
print("repeated among the first ten genes of all programmes:")
print("  by weight     ", 10 * r - len(np.unique(heaviest)))
print("  by specificity", 10 * r - top["name"].nunique())

top = top[top["rank"] <= 5]
top = top.pivot(index="rank", columns="component", values="name")
print("\n" + top[[1, 2, 3, 4]].to_string())

# %%
# Export
# ------
#
# The AnnData, with the components where scanpy expects them.

home = export.to_anndata(result, data, adata, layer="scaled")
home.write_h5ad(folder / "result.h5ad")
print(home)

# %%
# The largest component of a cell against its type:

table = pd.crosstab(home.obs["type"], home.obs["nmf"])
same = table.max(axis=1).sum() / n_cells
print(f"{same:.1%} of the cells are in the main component of their type")

# %%
# Against standard NMF
# --------------------
#
# Most of the error is Poisson noise, which no factorization can fit, so differences between
# solutions look small. They still matter: programmes are found or lost. How often merging pays
# depends on the data: the report of ``nmfmerge fit`` has this comparison for yours.

standard, merged = [], []
for seed in range(5):
    start = {"init": "random", "random_state": seed}
    standard.append(nmf(data.X, r, **start))
    merged.append(nmf_merge(data.X, r, n_init=1, **start))


def agreement(answers):
    """Mean cosine of programmes of the first answer with the others."""
    first, *others = [f.H.T for f in answers]
    return np.mean([metrics.match_components(first, H)[1] for H in others])


for name, answers in ("standard", standard), ("NMF-Merge", merged):
    print(
        f"{name:<10} programmes of different starts agree to"
        f" {agreement(answers):.4f},"
        f" {sum(f.seconds for f in answers):.1f} s"
    )

plot.paired_starts(
    [f.fitting_error for f in standard], [f.fitting_error for f in merged]
)
