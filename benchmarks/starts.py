"""Several starts: batched against one by one, and the default against scikit-learn's."""

import time
import warnings

import numpy as np
from sklearn.decomposition import NMF

from benchmarks.common import print_rows, run_parts
from nmfmerge import metrics, nmf_merge
from reproduce.sets import REAL, SETS, matrix

N_INIT = 20
SMALL = ("mhll", "wt15", "ko15", "pf1")


def main(*names):
    """Run both parts, or those named, print them, and store each."""
    warnings.simplefilter("ignore")
    run_parts((batched, default), names, "starts")


def batched(repeats=3):
    """Twenty starts at once and one by one, in seconds; the errors of both must agree."""
    rows = []
    for name in SMALL:
        X, r = matrix(name), SETS[name].rank
        seeds = [start.seed for start in nmf_merge(X, r, n_init=N_INIT).starts]

        def together():
            return [start.fitting_error for start in nmf_merge(X, r, n_init=N_INIT).starts]  # noqa: B023

        def one_by_one():
            starts = [{} if seed is None else {"init": "random", "random_state": seed}
                      for seed in seeds]  # noqa: B023 # fmt: skip
            return [nmf_merge(X, r, n_init=1, **start).fitting_error for start in starts]  # noqa: B023

        seconds, errors = _by_turns({"together": together, "alone": one_by_one}, repeats)
        difference = np.abs(np.divide(errors["together"], errors["alone"]) - 1).max()
        rows.append({
            "data": name, "components": r, "together": seconds["together"],
            "one by one": seconds["alone"], "ratio": seconds["together"] / seconds["alone"],
            "largest difference of errors": float(difference),
        })  # fmt: skip
        print_rows(rows[-1:])
    return rows


def default(repeats=2):
    """`nmf_merge` and scikit-learn's NMF with their defaults: error and seconds."""
    rows = []
    for name in REAL:
        X, r = matrix(name), SETS[name].rank

        def ours():
            return nmf_merge(X, r).fitting_error  # noqa: B023

        def theirs():
            model = NMF(r, max_iter=10_000)  # noqa: B023
            W = model.fit_transform(X)  # noqa: B023
            return metrics.fitting_error(X, W, model.components_)  # noqa: B023

        seconds, errors = _by_turns({"ours": ours, "theirs": theirs}, repeats)
        rows.append({
            "data": name, "components": r, "our error": errors["ours"],
            "their error": errors["theirs"],
            "error ratio": _ratio(errors["ours"], errors["theirs"]),
            "our seconds": seconds["ours"], "their seconds": seconds["theirs"],
            "time ratio": seconds["ours"] / seconds["theirs"],
        })  # fmt: skip
        print_rows(rows[-1:])
    return rows


def _ratio(ours, theirs):
    """1 where both are exact fits."""
    return 1.0 if max(ours, theirs) < 1e-6 else ours / theirs


def _by_turns(contenders, repeats):
    """Call each by turns; return the least seconds and the last result of each."""
    least, results = dict.fromkeys(contenders, np.inf), {}
    for _ in range(repeats):
        for name, function in contenders.items():
            began = time.perf_counter()
            results[name] = function()
            least[name] = min(least[name], time.perf_counter() - began)
    return least, results
