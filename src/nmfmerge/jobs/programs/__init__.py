"""Gene programmes of single cells by consensus NMF, under the names that cNMF gives its results."""

from nmfmerge.jobs.programs.result import Programs
from nmfmerge.jobs.programs.run import programs

__all__ = ["Programs", "programs"]
