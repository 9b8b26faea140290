"""cNMF on one file of counts, in an environment of its own: the seconds of each step as JSON.

``python cnmf_run.py counts.h5ad FOLDER 5-13 100`` with a Python that has cnmf.
"""

import json
import os
import sys
import time
import warnings

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"  # one worker; before NumPy is imported


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
    seconds = {}

    def step(name, function):
        began = time.perf_counter()
        function()
        seconds[name] = time.perf_counter() - began

    step("prepare", lambda: job.prepare(
        counts, components=components, n_iter=int(n_fits), seed=0, num_highvar_genes=2000,
        beta_loss="frobenius"))  # fmt: skip
    step("fits", lambda: job.factorize(worker_i=0, total_workers=1))
    step("consensus", lambda: (job.combine(), _consensus(job, components)))
    print("\n" + json.dumps({"seconds": seconds, "version": version("cnmf")}))


def _consensus(job, components):
    job.k_selection_plot(close_fig=True)
    for k in components:
        job.consensus(k, density_threshold=0.5, close_clustergram_fig=True, build_ref=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
