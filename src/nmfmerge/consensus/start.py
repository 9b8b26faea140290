"""`consensus`: from a matrix to the components that many fits agree on."""

from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nmfmerge.results.consensus import Consensus


def consensus(
    X: Any,
    ranks: "int | str | Iterable[int]",
    *,
    weights: Any = None,
    n_fits: int = 100,
    resample: str | None = None,
    side: str | None = None,
    merge: bool = False,
    density_threshold: float = 0.5,
    solver: str = "accelerated",
    beta_loss: str = "frobenius",
    missing: str = "nan",
    tol: float = 1e-4,
    max_iter: int = 10_000,
    max_time: float | None = None,
    random_state: Any = None,
    callback: "Callable[[Any], object] | None" = None,
    checkpoint: str | PathLike[str] | None = None,
    n_jobs: int | None = None,
    device: Any = None,
    verbose: int = 0,
) -> "Consensus":
    """Find the components that many fits agree on, at one rank or at several to choose from.

    At each rank ``n_fits`` fits from random starts are made, of X or of data drawn from it. Their
    components are matched one to one, outliers are left out, and the medians of the matched
    components are refitted to X. How well the fits agree says how far the components can be
    trusted, and where there are too many of them.

    Parameters
    ----------
    X : array, sparse matrix, DataFrame, Dataset or AnnData (m, n)
        Nonnegative data in memory, dense or CSR/CSC; NaN is missing.
    ranks : int, several int, or str
        Ranks to fit: ``range(5, 14)``, ``"5-13"`` or ``7``.
    weights : array or sparse matrix, optional
        Weights of the entries of X; see `nmf`.
    n_fits : int
        Number of fits at each rank, at least 2.
    resample : {"poisson", "rows", "columns"}, optional
        How the data of each fit are drawn from X: a Poisson count around each entry, or nine
        tenths of the rows or columns. By default all fits have X itself and differ in their start.
        If a draw of rows leaves a column without observations, a row that observes it is added; the
        same holds for draws of columns.
    side : {"H", "W"}, optional
        The factor whose components are matched across fits; default "H", and "W" where columns
        are drawn.
    merge : bool
        Make each fit by NMF-Merge instead of plain NMF.
    density_threshold : float
        A component whose mean distance to its nearest neighbours, as many as 30 % of the fits, is
        larger than this is an outlier. Components have unit norm, so distances are at most √2.
    solver : {"accelerated", "hals", "gcd", "alspgrad", "mu"}
        Algorithm of all fits; `nmf` says what they are.
    beta_loss : {"frobenius", "kullback-leibler"}
        What is minimised; see `nmf`.
    missing : {"nan", "zeros"}
        Which entries of X are missing; see `nmf`.
    tol : float
        Tolerance of each fit: no component moves by more than this, relatively.
    max_iter : int
        Maximum number of iterations of each stage of a fit.
    max_time : float, optional
        Maximum time in seconds of all fits; the consensus is then of those that were finished.
    random_state : int, Generator, RandomState or None
        Seed of starts and draws. None is a fixed seed: the same call gives the same answer, to the
        bit for any number of threads.
    callback : callable, optional
        Called after each fit with its ``rank``, ``n_done`` of ``n_fits``, ``fitting_error`` and
        ``seconds``; a true return value stops the run.
    checkpoint : path, optional
        File for the finished fits. If it exists, the run continues from it, to the same bits; more
        fits or other ranks may be asked for. One of other data or settings is rejected.
    n_jobs : int, optional
        Most threads; None and -1 are as many as the machine allows; see `nmf`. The result does not
        depend on it, to the bit.
    device : str or torch.device, optional
        Device of the fits, such as "cuda"; needs PyTorch. Fits of X itself are then batches.
    verbose : int
        1 shows a progress bar in a terminal or a notebook, and elsewhere a line for each rank.

    Returns
    -------
    Consensus
        ``result[r]`` is the consensus at rank r, ``result.assess()`` says which rank the data
        support, and ``result[r].factorization`` is a `Factorization` to plot, report and export.

    Warns
    -----
    ConvergenceWarning
        If fits reached ``max_iter``, or ``max_time`` had passed; the consensus is kept.

    Raises
    ------
    ConsensusInterrupted
        On Ctrl-C, a kind of `Interrupted`; its ``consensus`` is that of the finished fits.

    Examples
    --------
    >>> from nmfmerge import consensus, datasets
    >>> result = consensus(datasets.paper_example().X, "3-5", n_fits=10)
    >>> result.ranks
    (3, 4, 5)
    >>> result[4].agreement
    1.0
    """
    from nmfmerge import settings
    from nmfmerge.backends.numba import at_most
    from nmfmerge.consensus.engine import run

    given = settings.checked("consensus", locals())
    with at_most(given["n_jobs"]):
        return run(X, given, weights)
