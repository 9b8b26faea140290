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

from nmfmerge.backends.interface import Capability
from nmfmerge.backends.numba.alspgrad import descend_
from nmfmerge.backends.numba.blocks import least_curvature
from nmfmerge.backends.numba.extrapolate import extrapolate_, extrapolated_
from nmfmerge.backends.numba.factors import (
    contiguous,
    copy,
    empty,
    from_host,
    indices,
    inner_products,
    joined,
    mix,
    numbers,
    part_norms,
    products,
    row_products,
    scaled,
    scaled_positive,
    spread,
    stack,
    take,
    to_host,
    with_zero_components,
)
from nmfmerge.backends.numba.gcd import gcd_sweep_
from nmfmerge.backends.numba.gram import diagonals, gram64, thin_gram
from nmfmerge.backends.numba.hals import hals_sweep_
from nmfmerge.backends.numba.kl_sums import (
    kl_divergences,
    kl_explained,
    kl_line_sums,
    kl_merge_rises,
    kl_mu_step_,
    kl_ratios,
    kl_x_log_y,
)
from nmfmerge.backends.numba.kl_sweep import kl_sweep_
from nmfmerge.backends.numba.missing_cross import missing_cross_
from nmfmerge.backends.numba.momentum import RULE, fit_noted, judge_, judge_values_, rise, settle_
from nmfmerge.backends.numba.mu import mean_sizes, mu_step_
from nmfmerge.backends.numba.nnls import nnls_columns, nnls_vector
from nmfmerge.backends.numba.passes import LowRank, Stored, hals_passes_
from nmfmerge.backends.numba.steps import (
    component_sums,
    inner_product,
    largest_ratio,
    largest_step,
    note_steps_,
    sums,
)
from nmfmerge.backends.numba.weighted_sweep import weighted_sweep_
from nmfmerge.backends.teams import at_most, available_threads, process_threads
from nmfmerge.backends.threads import (
    alone,
    in_threads,
    of_each,
    one_blas_thread,
    share,
    share_ranges,
)

capabilities = frozenset(
    {
        Capability.HOST,
        Capability.MULTIPLICATIVE,
        Capability.SUBPROBLEMS,
        Capability.SPREAD,
        Capability.ENTRYWISE,
    }
)

__all__ = [
    "RULE",
    "LowRank",
    "Stored",
    "alone",
    "at_most",
    "available_threads",
    "capabilities",
    "component_sums",
    "contiguous",
    "copy",
    "descend_",
    "diagonals",
    "empty",
    "extrapolate_",
    "extrapolated_",
    "fit_noted",
    "from_host",
    "gcd_sweep_",
    "gram64",
    "hals_passes_",
    "hals_sweep_",
    "in_threads",
    "indices",
    "inner_product",
    "inner_products",
    "joined",
    "judge_",
    "judge_values_",
    "kl_divergences",
    "kl_explained",
    "kl_line_sums",
    "kl_merge_rises",
    "kl_mu_step_",
    "kl_ratios",
    "kl_sweep_",
    "kl_x_log_y",
    "largest_ratio",
    "largest_step",
    "least_curvature",
    "mean_sizes",
    "missing_cross_",
    "mix",
    "mu_step_",
    "nnls_columns",
    "nnls_vector",
    "note_steps_",
    "numbers",
    "of_each",
    "one_blas_thread",
    "part_norms",
    "process_threads",
    "products",
    "rise",
    "row_products",
    "scaled",
    "scaled_positive",
    "settle_",
    "share",
    "share_ranges",
    "spread",
    "stack",
    "sums",
    "take",
    "thin_gram",
    "to_host",
    "weighted_sweep_",
    "with_zero_components",
]
