"""
Adjusting a solution by hand
============================

A fit at a guessed rank is rarely the last word: two components are halves of one, another holds
two at once, one is known. **How does one adjust them, and what does each step cost?** `Editor`
changes a solution step by step, tells what a step does to the fit before it is done, and takes any
of them back.
"""

import numpy as np

from nmfmerge import Editor, datasets, nmf, plot

data = datasets.lcms_like()
editor = Editor(data.X, nmf(data.X, 19))  # two too many
print(editor)

# %%
# Which pairs are one component?
# ------------------------------
#
# `pair_changes` tells what merging each pair would add to the fitting error.

changes = editor.pair_changes()
i, j = np.unravel_index(np.nanargmin(changes), changes.shape)
print(editor.preview("merge", i, j))
editor.merge(i, j)

# %%
# Is something missing?
# ---------------------
#
# `missing` shows components that could be added. Noise always has directions that a fit lacks, so
# the question is what adding one would bring: here, next to nothing.

print(editor.missing(1).generalized_singular_values)
print(editor.preview("add", 1))

# %%
# Names, and what is settled
# --------------------------
#
# A component that is known gets a name, and is held: it stays to the bit, whatever happens to the
# rest.

editor.rename(0, "first compound")
editor.hold(0)
editor.merge_to(17)
editor.polish()
print(editor)

# %%
# Each step can be undone. The whole way can be saved, repeated on other data of the same shape, or
# written as a program.

editor.undo()
editor.redo()
print(editor.script())

# %%
# The components with their names:

plot.components(editor.result(), data, which=range(4))
