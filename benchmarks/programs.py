"""Gene programmes of 2,700 blood cells: the time of cNMF and ours, and whether they agree.

``python -m benchmarks programs [5-13 [100 [cuda]]]``: ranks, fits at each, and a device. cNMF runs
where ``CNMF_PYTHON`` names a Python that has it, and only then the result is stored. Both use one
thread, and ours also all cores.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.common import print_rows, store
from nmfmerge import metrics
from nmfmerge.jobs import programs
from reproduce import real

ALIKE = 0.95  # cosine from which two programmes are the same
STABLE = 0.9  # share of cNMF's fits that have a programme it finds stably


def main(ranks="5-13", n_fits="100", device=None):
    """Time both, match their programmes, and store the result."""
    first, last = map(int, ranks.split("-"))
    ranks_ = range(first, last + 1)
    adata = _cells()
    ours = {"one thread": {"n_jobs": 1}, "all cores": {}}
    if device is not None:
        ours[device] = {"device": device}
    with tempfile.TemporaryDirectory() as folder:
        rows, found = [], None
        programs(adata, first, n_fits=2)  # compiles
        for name, options in ours.items():
            processor = time.process_time()
            seconds, found = _ours(adata, ranks_, int(n_fits), Path(folder) / name, options)
            total = sum(seconds.values())
            processor = time.process_time() - processor
            rows.append(
                {"who": f"nmfmerge, {name}", **seconds, "total": total, "processor": processor}
            )
        theirs = _cnmf(adata, ranks, n_fits, Path(folder))
        if theirs is not None:
            seconds = theirs["seconds"]
            rows.append(
                {
                    "who": f"cnmf {theirs['version']}, one thread",
                    **seconds,
                    "total": sum(seconds.values()),
                    "processor": theirs["processor"],
                }
            )
        print_rows(rows)
        matched = [] if theirs is None else _matched(Path(folder) / "cnmf", found, ranks_)
        for row in matched:
            row["median error"] = float(np.median(found.consensus[row["rank"]].errors))
            row["median error of cNMF"] = theirs["errors"][str(row["rank"])]
        if matched:
            print_rows(matched)
    if theirs is not None:
        store("programs", {"ranks": ranks, "n_fits": int(n_fits), "rows": rows, "matched": matched})


def _cells():
    """The counts of pbmc3k as an AnnData, cells × genes."""
    import anndata
    import pandas as pd
    import scipy.sparse as sp

    data = real.load_pbmc3k()
    X = sp.csr_matrix(data.X.T, dtype=np.float32)
    names = ((f"{kind}{i}" for i in range(n)) for kind, n in zip(("cell", "gene"), X.shape,
                                                                 strict=True))  # fmt: skip
    obs, var = (pd.DataFrame(index=list(each)) for each in names)
    return anndata.AnnData(X, obs=obs, var=var)


def _ours(adata, ranks, n_fits, folder, options):
    """Seconds of the programmes, all fits and spectra, and of all tables and figures."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = programs(adata, ranks, n_fits=n_fits, **options)
        computed = time.perf_counter()
        for rank in ranks:  # as the other writes all ranks
            found.at(rank).write(folder, "ours")
    fits = found.consensus.seconds
    seconds = {
        "prepare": computed - began - fits,
        "fits": fits,
        "consensus": time.perf_counter() - computed,
    }
    return seconds, found


def _cnmf(adata, ranks, n_fits, folder):
    """Seconds and version of a run of cNMF; None where it is not installed."""
    python = os.environ.get("CNMF_PYTHON")
    if python is None:
        return None
    adata.write_h5ad(folder / "counts.h5ad")
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    script = Path(__file__).with_name("cnmf_run.py")
    command = [python, "-P", script, folder / "counts.h5ad", folder, ranks, n_fits]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def _matched(folder, found, ranks):
    """For each rank, how many of cNMF's stable programmes are among ours."""
    import pandas as pd

    rows = []
    for rank in ranks:
        theirs = pd.read_csv(
            folder / f"cnmf.spectra.k_{rank}.dt_0_5.consensus.txt", sep="\t", index_col=0
        )
        stable = _stability(folder, rank, theirs) >= STABLE
        ours = found.at(rank).spectra[theirs.columns]
        cosines = metrics.match_components(theirs.to_numpy().T, ours.to_numpy().T)[1]
        rows.append(
            {
                "rank": rank,
                "stable in cNMF": int(stable.sum()),
                "of these ours": int((cosines[stable] >= ALIKE).sum()),
                "least cosine of these": float(cosines[stable].min()) if stable.any() else np.nan,
                "all alike": int((cosines >= ALIKE).sum()),
                "our silhouette": found.consensus[rank].silhouette,
            }
        )
    return rows


def _stability(folder, rank, spectra):
    """The share of cNMF's fits that have each of its programmes."""
    with np.load(
        folder / f"cnmf_tmp/cnmf.spectra.k_{rank}.merged.df.npz", allow_pickle=True
    ) as stored:  # fmt: skip
        fits = np.asarray(stored["data"], dtype=np.float64)
    fits = _unit(fits).reshape(-1, rank, fits.shape[1])
    return (np.einsum("fkp,cp->fkc", fits, _unit(spectra.to_numpy())).max(axis=1) >= ALIKE).mean(
        axis=0
    )


def _unit(F):
    return F / np.linalg.norm(F, axis=1, keepdims=True)
