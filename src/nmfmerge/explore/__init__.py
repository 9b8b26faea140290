"""The explorer: a page on this machine to look at all ranks and to adjust a solution.

`session` holds what is shown, `page` draws it in a tab, `server` sends it to the browser, and
`explorer` opens and saves the folder.
"""

from nmfmerge.explore.start import explore

__all__ = ["explore"]
