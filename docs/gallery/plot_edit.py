"""
Adjusting a solution by hand
============================

A fit at a guessed rank often needs adjusting: two components are halves of one, another combines
two, and one is known. **How do you adjust them, and what does each step cost?** `Editor`
changes a solution step by step, previews the effect of each step on the fit, and can undo
every step.
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
# `pair_changes` computes how much merging each pair would add to the fitting error.

changes = editor.pair_changes()
i, j = np.unravel_index(np.nanargmin(changes), changes.shape)
print(editor.preview("merge", i, j))
editor.merge(i, j)

# %%
# Is something missing?
# ---------------------
#
# `missing` lists components that could be added. Noise always has directions that a fit lacks, so
# the question is how much adding one would reduce the error: here, almost nothing.

print(editor.missing(1).generalized_singular_values)
print(editor.preview("add", 1))

# %%
# Names, and known components
# ---------------------------
#
# A known component gets a name and is held: it stays unchanged, to the bit, while the others are
# fitted.

editor.rename(0, "first compound")
editor.hold(0)
editor.merge_to(17)
editor.polish()
print(editor)

# %%
# Each step can be undone. The edits can be saved, repeated on other data of the same shape, or
# written as a program.

editor.undo()
editor.redo()
print(editor.script())

# %%
# The components with their names:

plot.components(editor.result(), data, which=range(4))
