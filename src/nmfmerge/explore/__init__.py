"""The explorer: a page on this machine to look at all ranks and to adjust a solution."""

from nmfmerge.explore.start import explore

__all__ = ["explore"]
