"""cNMF on one file of counts, in an environment of its own: the seconds of each step as JSON,
with processor time and the median error of the fits of each rank.

``python cnmf_run.py counts.h5ad FOLDER 5-13 100`` with a Python that has cnmf.
"""

import json
import os
import sys
import time
import warnings

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"  # one worker; before NumPy is imported

_JUDGED = 20  # fits at each rank whose errors are computed


def main(counts, folder, ranks, n_fits):
    """Run all steps; print the seconds of each, and the version."""
    import matplotlib as mpl

    mpl.use("Agg")
    warnings.simplefilter("ignore")
    from importlib.metadata import version

    from cnmf import cNMF

    first, last = map(int, ranks.split("-"))
    components = list(range(first, last + 1))
    job = cNMF(output_dir=folder, name="cnmf")
    seconds, processor = {}, time.process_time()

    def step(name, function):
        began = time.perf_counter()
        function()
        seconds[name] = time.perf_counter() - began

    step("prepare", lambda: job.prepare(
        counts, components=components, n_iter=int(n_fits), seed=0, num_highvar_genes=2000,
        beta_loss="frobenius"))  # fmt: skip
    step("fits", lambda: job.factorize(worker_i=0, total_workers=1))
    step("consensus", lambda: (job.combine(), _consensus(job, components)))
    processor = time.process_time() - processor
    errors = {k: _median_error(job, k) for k in components}
    found = {"seconds": seconds, "processor": processor, "errors": errors}
    print("\n" + json.dumps(found | {"version": version("cnmf")}))


def _median_error(job, k):
    """The median fitting error of the fits of one rank, in percent, by refits of the usages."""
    import numpy as np
    import scanpy as sc
    from cnmf import load_df_from_npz
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import non_negative_factorization

    X = csr_matrix(sc.read(job.paths["normalized_counts"]).X)
    merged = load_df_from_npz(job.paths["merged_spectra"] % k).to_numpy()
    norm2, errors = float((X.data**2).sum()), []
    for H in merged.reshape(-1, k, X.shape[1])[:_JUDGED]:
        W, H, _ = non_negative_factorization(
            X, H=np.ascontiguousarray(H), n_components=k, update_H=False, solver="cd", tol=1e-6,
            max_iter=1000,
        )  # fmt: skip
        left = norm2 - 2 * ((X @ H.T) * W).sum() + ((W.T @ W) * (H @ H.T)).sum()
        errors.append(100 * left / norm2)
    return float(np.median(errors))


def _consensus(job, components):
    job.k_selection_plot(close_fig=True)
    for k in components:
        job.consensus(k, density_threshold=0.5, close_clustergram_fig=True, build_ref=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
