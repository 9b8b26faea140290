"""Prepare drawings without matplotlib: blocks, lines, peaks and outlines.

Figures, the report, the explorer and notebooks reduce data to what can be seen by the same rules.
"""
