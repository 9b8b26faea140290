"""Adjusting a solution by hand: `Editor`, its edits with undo, and what each would change."""

from nmfmerge.editor.editor import Editor, Missing, Preview
from nmfmerge.editor.edits import Edit

__all__ = ["Edit", "Editor", "Missing", "Preview"]
