"""Inner loops on small dense arrays: one file per algorithm, and a NumPy twin of each.

Every kernel improves a component-major factor ``F`` (r × p) for the quadratic problem
``min ½⟨F, G F⟩ − ⟨C, F⟩, F ≥ 0``, given the Gram ``G`` (r × r) of the other factor and the
cross product ``C`` (r × p) of the other factor with the data. Most work on a batch of starts at
once, which are the first axis of all arrays. Kernels never see the data matrix and never check
their arguments.

A kernel works through ``F`` in blocks of ``BLOCK`` columns, which are dealt out to threads where
there is enough to do. Columns are independent and sums are kept per block, so the result has the
same bits for any number of threads.
"""

from nmfmerge.kernels.alspgrad import projected_norm, projected_step_
from nmfmerge.kernels.batch import (
    contiguous,
    copy,
    empty,
    from_host,
    indices,
    numbers,
    stack,
    take,
    to_host,
)
from nmfmerge.kernels.extrapolate import extrapolate_, extrapolated_
from nmfmerge.kernels.gcd import gcd_largest_decrease, gcd_sweep_
from nmfmerge.kernels.gram import gram64, thin_gram
from nmfmerge.kernels.hals import hals_sweep_
from nmfmerge.kernels.merging import merge_cheapest_
from nmfmerge.kernels.mix import (
    joined,
    mix,
    part_norms,
    products,
    row_products,
    scaled,
    scaled_positive,
    spread,
    with_zero_components,
)
from nmfmerge.kernels.momentum import RULE, fit_noted, judge_, rise, settle_
from nmfmerge.kernels.mu import mean_sizes, mu_step_
from nmfmerge.kernels.nnls import nnls_columns
from nmfmerge.kernels.parallel import alone, available_threads, blas_for, in_threads, of_each
from nmfmerge.kernels.steps import inner_product, inner_products, largest_step, note_steps_

__all__ = [
    "RULE",
    "alone",
    "available_threads",
    "blas_for",
    "contiguous",
    "copy",
    "empty",
    "extrapolate_",
    "extrapolated_",
    "fit_noted",
    "from_host",
    "gcd_largest_decrease",
    "gcd_sweep_",
    "gram64",
    "hals_sweep_",
    "in_threads",
    "indices",
    "inner_product",
    "inner_products",
    "joined",
    "judge_",
    "largest_step",
    "mean_sizes",
    "merge_cheapest_",
    "mix",
    "mu_step_",
    "nnls_columns",
    "note_steps_",
    "numbers",
    "of_each",
    "part_norms",
    "products",
    "projected_norm",
    "projected_step_",
    "rise",
    "row_products",
    "scaled",
    "scaled_positive",
    "settle_",
    "spread",
    "stack",
    "take",
    "thin_gram",
    "to_host",
    "with_zero_components",
]
