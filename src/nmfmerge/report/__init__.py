"""A report of a factorization as one HTML file that can be sent to a colleague."""

from nmfmerge.report.care import warnings_of
from nmfmerge.report.page import page

__all__ = ["page", "warnings_of"]
