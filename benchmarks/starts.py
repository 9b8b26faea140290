"""The default, the best of four starts, against scikit-learn's."""

import time
import warnings

import numpy as np
from sklearn.decomposition import NMF

from benchmarks.common import print_rows, run_parts
from nmfmerge import metrics, nmf_merge
from reproduce.sets import REAL, SETS, matrix

_SPINNING = (
    0.2  # seconds for which threads of BLAS may go on to wait after a call, and slow the next
)


def main(*names):
    """Run the part, print it, and store it."""
    warnings.simplefilter("ignore")
    run_parts((default,), names, "starts")


def default():
    """`nmf_merge` and scikit-learn's NMF with their defaults: error and seconds."""
    rows = []
    for name in REAL:
        X, r = matrix(name), SETS[name].rank

        def ours():
            return nmf_merge(X, r).fitting_error  # noqa: B023

        def theirs(max_iter=10_000):
            model = NMF(r, max_iter=max_iter, random_state=0)  # noqa: B023
            W = model.fit_transform(X)  # noqa: B023
            return metrics.fitting_error(X, W, model.components_)  # noqa: B023

        contenders = {"ours": ours, "theirs": theirs, "at 200": lambda: theirs(200)}
        seconds, errors = _by_turns(contenders)
        rows.append({
            "data": name, "components": r, "our error": errors["ours"],
            "their error": errors["theirs"],
            "error ratio": _ratio(errors["ours"], errors["theirs"]),
            "our seconds": seconds["ours"], "their seconds": seconds["theirs"],
            "time ratio": seconds["ours"] / seconds["theirs"],
            "error ratio at 200": _ratio(errors["ours"], errors["at 200"]),
            "time ratio at 200": seconds["ours"] / seconds["at 200"],
        })  # fmt: skip
        print_rows(rows[-1:])
    return rows


def _ratio(ours, theirs):
    """1 where both are exact fits."""
    return 1.0 if max(ours, theirs) < 1e-5 else ours / theirs


def _by_turns(contenders, most=10, enough=3.0):
    """Call each by turns; return the least seconds and the last result of each.

    Twice at least, and up to ``most`` times while all of it took less than ``enough`` seconds.
    """
    least, results = dict.fromkeys(contenders, np.inf), {}
    first = time.perf_counter()
    for turn in range(most):
        if turn > 1 and time.perf_counter() - first > enough:
            break
        for name, function in contenders.items():
            time.sleep(_SPINNING)
            began = time.perf_counter()
            results[name] = function()
            least[name] = min(least[name], time.perf_counter() - began)
    return least, results
