"""`explore`: from a matrix, a data set or a path to a page in the browser."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmfmerge.explore.explorer import Explorer


def explore(
    X: Any,
    *,
    weights: Any = None,
    missing: str = "nan",
    n_max: int = 20,
    port: int = 0,
    browser: bool = False,
    **reading: Any,
) -> "Explorer":
    """Open the explorer: look at all ranks, and merge, add, split, hold and name components.

    Parameters
    ----------
    X : array, sparse matrix, Dataset, str or path
        The data; or a data file; or a folder that `nmfmerge fit` or the explorer has written.
    weights : array or sparse matrix, or path, optional
        Weights of the entries of X (see `nmf`), or a file with those of a data file.
    missing : {"nan", "zeros"}
        Which entries of X are missing; see `nmf`.
    n_max : int
        Highest rank that is fitted at first, where X is not a fit; the page can fit more.
    port : int
        Port of the page on this machine; 0 is any free one.
    browser : bool
        Whether to open the page in a browser. A notebook shows it below the cell.
    **reading
        Options of the format of a data file; see `nmfmerge.io.read`.

    Returns
    -------
    Explorer
        ``result`` is the current solution, ``address`` the page, ``stop()`` ends it.
    """
    try:
        import bokeh  # noqa: F401
    except ImportError as error:
        raise ImportError('explore needs Bokeh: pip install "nmfmerge[explore]"') from error
    from nmfmerge.arguments.errors import ArgumentTypeError
    from nmfmerge.explore.explorer import Explorer, open_matrix, open_path
    from nmfmerge.settings import SETTINGS

    n_max, missing = SETTINGS["n_max"].check(n_max), SETTINGS["missing"].check(missing)
    is_file, of_file = (isinstance(given, str | os.PathLike) for given in (X, weights))
    if weights is not None and is_file != of_file:
        raise ArgumentTypeError(
            "weights",
            f"is {_a_file(of_file)}, and X is {_a_file(is_file)}",
            expected="a file of weights for a data file, an array for an array",
        )
    if is_file:
        known = None if weights is None else Path(weights)
        session = open_path(Path(X), known, missing, **reading)
    elif reading:
        raise TypeError(
            f"{next(iter(reading))} is for files: expected X as a path, or no such option"
        )
    else:
        session = open_matrix(X, weights, missing)
    try:
        explorer = Explorer(session, port, n_max)
    except BaseException:
        session.close()
        raise
    if browser:
        import webbrowser

        webbrowser.open(explorer.address)
    return explorer


def _a_file(is_file: bool) -> str:
    return "a file" if is_file else "not a file"
