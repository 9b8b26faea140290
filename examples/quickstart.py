"""Standard NMF and NMF-Merge from the same ten random starts, on a generated LC-MS run."""

import numpy as np

from nmfmerge import datasets, metrics, nmf, nmf_merge

data = datasets.lcms_like(n_mz=400, n_scans=600, n_compounds=17)
X, r = data.X, data.n_components
print(f"{data.description} {X.shape[0]} mass bins × {X.shape[1]} scans, {r} compounds.\n")

nmf_merge(X[:20, :20], 2, tol=1e-1)  # compiles, so that the times below are of fitting alone
print("            fitting error (%)        compounds found")
print("start     standard   NMF-Merge    standard   NMF-Merge")
standard, merged = [], []
for seed in range(10):
    standard.append(nmf(X, r, init="random", random_state=seed))
    merged.append(nmf_merge(X, r, init="random", random_state=seed))
    found = [
        np.sum(metrics.match_components(data.W, result.W)[1] > 0.95)
        for result in (standard[-1], merged[-1])
    ]
    errors = standard[-1].fitting_error, merged[-1].fitting_error
    print(f"{seed:>5} {errors[0]:>12.4f} {errors[1]:>11.4f} {found[0]:>11} {found[1]:>11}")

for name, results in (("standard", standard), ("NMF-Merge", merged)):
    errors = [result.fitting_error for result in results]
    seconds = sum(result.seconds for result in results)
    print(f"\n{name:<10} {np.mean(errors):.4f} ± {np.std(errors):.4f} %, {seconds:.1f} s", end="")

best = min(merged, key=lambda result: result.fitting_error)
print(f"\n\nThe best of them:\n{best}")
