"""Adjusting a solution by hand: `Editor`, its edits with undo, and what each would change.

An edit merges, splits, adds, removes or renames components, and fits the others again.
"""

from nmfmerge.editor.editor import Editor, MissingComponents, Preview
from nmfmerge.editor.edits import Edit

__all__ = ["Edit", "Editor", "MissingComponents", "Preview"]
