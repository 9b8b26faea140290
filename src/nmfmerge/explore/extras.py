"""Additional data of a solution for the page: costs of merges, and missing components."""

import numpy as np

from nmfmerge.editor import Editor
from nmfmerge.explore.state import Extras
from nmfmerge.metrics import next_merges
from nmfmerge.results.factorization import Factorization

N_VALUES = 5  # generalized singular values that are shown


def extras_of(editor: Editor, result: Factorization) -> Extras:
    """Costs of all merges, the merge tree, and the features that would be recovered next."""
    left = min(len(result.W), result.H.shape[1]) - result.n_components
    few = editor.missing(min(N_VALUES, left)).generalized_singular_values if left else ()
    pairs = editor.pair_changes()
    held = np.array(editor.held)
    pairs[held], pairs[:, held] = np.nan, np.nan  # they cannot be merged
    return Extras(
        pairs,
        next_merges(result.W, result.H, beta_loss=result.loss),
        editor.missing(1) if left else None,
        np.asarray(few),
    )
