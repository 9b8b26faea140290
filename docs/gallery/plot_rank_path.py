"""
Every rank at once
==================

You have a matrix and no idea of the number of components. **Which rank?** Fit all ranks as one
path, each from its neighbours, and look at the evidence for each. This takes less time than
separate fits, and the error never rises with rank.
"""

import numpy as np

from nmfmerge import datasets, plot, rank_path

data = datasets.lcms_like(n_mz=120, n_scans=200, n_compounds=7, random_state=2)
path = rank_path(data.X, 14, stability=True)
print(path)

# %%
# Four things are measured at each rank: the fitting error, the cost of merging the two components
# that are easiest to merge, how much structure the residual has, and whether both halves of the data
# give the same components.

plot.rank_path(path)

# %%
# The assessment in words: a rank stands out, a range does, or none does.

print(path.assess())

# %%
# ``path[r]`` is the factorization of rank r, as `nmf` would return it. The run has seven compounds,
# and the drifting baseline of the detector may take a component of its own. We print the cosine of
# each true spectrum with its nearest component.


def unit(W):
    """Columns of norm 1."""
    return W / np.linalg.norm(W, axis=0)


for rank in (6, 7, 8):
    result = path[rank]
    found = (unit(data.W).T @ unit(result.W)).max(axis=1)
    print(f"rank {rank}: {result.fitting_error:.3f} %, nearest cosines:")
    print("  ", *found.round(2))
