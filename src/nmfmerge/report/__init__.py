"""A report of a factorization as one HTML file that can be sent to a colleague.

`sections` and `components` write what the page says and draws, `care` what to be careful about.
"""

from nmfmerge.report.care import warnings_of
from nmfmerge.report.page import page

__all__ = ["page", "warnings_of"]
