"""Regression check on generated data, ratios only, in under two minutes."""

import warnings

from benchmarks.common import print_rows
from benchmarks.cpu import _per_iteration, _random_dense, _to_equal_error
from nmfmerge import datasets


def main():
    """Print per-iteration ratios to the BLAS floor, and ratios of time to scikit-learn's error."""
    warnings.simplefilter("ignore")
    lcms, melody = datasets.lcms_like(), datasets.melody(noise=0.1)
    sets = [
        ("LC-MS-like", lcms.X, lcms.n_components),
        ("melody", melody.X, melody.n_components),
        ("2000 × 1000", _random_dense(2000, 1000), 30),
    ]
    print_rows([_per_iteration(name, X, r) for name, X, r in sets])
    print()
    starts = [("nndsvd", 0), ("random", 0), ("random", 1)]
    print_rows([_to_equal_error(*sets[0], init, seed, repeats=2) for init, seed in starts])
