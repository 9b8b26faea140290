"""`nmf` and `nmf_merge`, and the single steps `recover_components` and `merge_components`."""

from collections.abc import Iterable, Mapping
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from nmfmerge import settings
from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.arguments.values import Function, Number, Whole
from nmfmerge.backends.numba import at_most
from nmfmerge.inputs import check, lazy, tensors
from nmfmerge.inputs.labels import part_of
from nmfmerge.losses import LOSSES, Loss, Penalty, Problem
from nmfmerge.losses.merging import MergeTree, Order
from nmfmerge.matrices import DataMatrix
from nmfmerge.method.course import Course
from nmfmerge.method.prepare import extra_components, looser, prepare
from nmfmerge.results.factorization import Factorization
from nmfmerge.solvers import solvers_of
from nmfmerge.solvers.history import StageName
from nmfmerge.solvers.limits import Callback

RandomState = int | np.random.Generator | np.random.RandomState | None
Start = str | tuple[np.ndarray, np.ndarray]
Init = Start | list[Start]
Hold = Iterable[int] | Mapping[str, Iterable[int]] | None


def nmf(
    X: Any,
    n_components: int,
    *,
    weights: Any = None,
    layer: str | None = None,
    mask_var: str | None = None,
    solver: str = "accelerated",
    beta_loss: str = "frobenius",
    missing: str = "nan",
    init: Init = "nndsvd",
    n_init: int = 1,
    return_all: bool = False,
    alpha_W: float = 0.0,
    alpha_H: float | str = "same",
    l1_ratio: float = 0.0,
    hold: Hold = None,
    tol: float = 1e-4,
    max_iter: int = 10_000,
    max_time: float | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
    checkpoint: str | PathLike[str] | None = None,
    n_jobs: int | None = None,
    device: Any = None,
    tf32: bool = False,
    verbose: int = 0,
) -> Factorization:
    r"""Factorize a nonnegative matrix, X ≈ WH, by one solver from one start or several.

    .. math:: \min_{W \ge 0,\, H \ge 0} \tfrac12 \lVert X - WH \rVert_F^2

    Parameters
    ----------
    X : array, sparse matrix, Dask array, DataFrame, Dataset or AnnData (m, n)
        Nonnegative data, dense or CSR/CSC; NaN is missing. float32 and float64 are not converted.
        Names of rows and columns are kept in ``axes`` of the result. A Dask array of dense or CSR
        chunks is processed chunk by chunk, on the active client of `distributed` or else in
        threads; the factor along the chunked axis is returned as a Dask array.
    n_components : int
        Rank r, from 1 to min(m, n).
    weights : array, sparse matrix or Dask array, optional
        The certainty of each entry of X, at least 0: an entry of weight 0 is missing, one of weight
        2 counts as two equal observations. m × n, or one number for each row (m × 1) or column
        (1 × n). Sparse weights are zero where they have no entry.
    layer : str, optional
        Layer of an AnnData to fit instead of its X; "raw" for .raw.
    mask_var : str, optional
        Column of ``var`` of an AnnData that marks the genes to fit, such as "highly_variable".
    solver : {"accelerated", "hals", "gcd", "alspgrad", "mu"}
        Algorithm. "accelerated" is HALS with extrapolation: as good at the same ``tol``, and
        several times faster.
    beta_loss : {"frobenius", "kullback-leibler"}
        What is minimised: half the squared error, or the generalised Kullback–Leibler divergence,
        which suits counts. For this one X is in memory, and the solvers are "accelerated" and "mu".
    missing : {"nan", "zeros"}
        Which entries of X are missing, beside those of weight zero: NaN and masked ones, or also
        those that a sparse X does not store, as in a table of ratings.
    init : {"nndsvd", "nndsvda", "nndsvdar", "random"}, (W0, H0) or a list of these
        Start; given factors are not changed. A list has one entry for each start and replaces
        ``n_init``.
    n_init : int
        Number of starts: ``init`` and random ones. In memory each is computed by itself, in a
        thread where a core is free; on a device and for Dask arrays they are one batch. The best
        is returned, and ``starts`` lists the others.
    return_all : bool
        Whether to keep the solutions from all starts, in ``solutions``.
    alpha_W, alpha_H : float
        Weights of penalties on W and H, as in scikit-learn's ``NMF``: the objective gains
        alpha_W·n·(l1_ratio·ΣW + ½(1 − l1_ratio)‖W‖²), and the same for H with alpha_H·m.
        ``alpha_H="same"`` is alpha_W. L1 makes factors sparse. A penalty on one factor alone only
        moves scale to the other one, unless that is held.
    l1_ratio : float
        Share of L1 in the penalties, from 0 to 1; the rest is L2.
    hold : indices, or a mapping of "W" and "H" to indices, optional
        Components of ``init=(W0, H0)`` that do not change, to the bit in the precision of X,
        while the others are fitted: ``[0, 1]`` holds columns of W and rows of H,
        ``{"H": [0, 1]}`` only rows of H, for known spectra of unknown amounts.
    tol : float
        Stop when no component moves by more than this, relatively:
        ‖new − old‖ ≤ tol·‖new + old‖ for every column of W and row of H.
    max_iter : int
        Maximum number of iterations.
    max_time : float, optional
        Maximum time in seconds.
    random_state : int, Generator, RandomState or None
        Seed of the random starts. None is a fixed seed: the same call gives the same answer.
    callback : callable, optional
        Called with a `Progress` after each iteration, of one start after another where they are
        not one batch; a true return value stops the run.
    checkpoint : path, optional
        File for the state of the run. If it exists, the run continues from it; on the same machine
        with the same number of threads the result is bit-identical to that of an uninterrupted run
        (equal to rounding error, from several starts on a device). A run that reached its limits
        continues its last stage when they are raised. A damaged file, or one of other data or
        settings, is rejected. The file is not deleted.
    n_jobs : int, optional
        Most threads of the fit, of its starts and their products together. None is as many as the
        affinity of the process, the quota of its container, OMP_NUM_THREADS, threadpoolctl and
        joblib allow; -1 is the same and -2 one less, as in scikit-learn. It does not change a bit
        of the result. Devices, and clusters of `distributed`, have threads of their own.
    device : str or torch.device, optional
        Device of the computation, such as "cuda"; needs PyTorch. X may also be a PyTorch tensor:
        the fit then runs on its device and returns tensors.
    tf32 : bool
        Allow TF32 in products with a float32 X on a GPU: several times faster, with relative
        errors of 1e-3 instead of 1e-7 in them.
    verbose : int
        1 shows a progress bar in a terminal or a notebook, and elsewhere a line after each stage;
        2 prints these lines, and one every 100 iterations.

    Returns
    -------
    Factorization

    Warns
    -----
    ConvergenceWarning
        If ``max_iter`` or ``max_time`` came before convergence; the result is kept.

    Raises
    ------
    Interrupted
        On Ctrl-C; its ``factorization`` holds the best factors so far.
    DataReadError
        If a chunk of a Dask array cannot be read any more, or its cluster is lost; its
        ``factorization`` holds the factors so far.

    Examples
    --------
    >>> from nmfmerge import datasets, nmf
    >>> nmf(datasets.paper_example().X, 4, solver="hals").n_iter
    575
    """
    given = settings.checked("nmf", locals())

    def stages(start: Course) -> None:
        start.initialize()
        start.solve(StageName.FINAL, given["tol"])

    with at_most(given["n_jobs"]):
        part = part_of(X, given["layer"], given["mask_var"])
        return prepare(part, given, weights=weights).through(stages)


def nmf_merge(
    X: Any,
    n_components: int,
    *,
    weights: Any = None,
    layer: str | None = None,
    mask_var: str | None = None,
    n_extra: int | None = None,
    solver: str = "accelerated",
    beta_loss: str = "frobenius",
    missing: str = "nan",
    init: Init = "nndsvd",
    n_init: int = 4,
    return_all: bool = False,
    alpha_W: float = 0.0,
    alpha_H: float | str = "same",
    l1_ratio: float = 0.0,
    hold: Hold = None,
    tol: float = 1e-4,
    tol_intermediate: float | None = None,
    max_iter: int = 10_000,
    max_time: float | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
    checkpoint: str | PathLike[str] | None = None,
    n_jobs: int | None = None,
    device: Any = None,
    tf32: bool = False,
    verbose: int = 0,
) -> Factorization:
    """Factorize a nonnegative matrix, X ≈ WH, by NMF-Merge (Guo & Holy).

    From each start, a loose NMF of rank r is extended by ``n_extra`` components that it missed,
    refined, merged back to r by the optimal pairwise merge, and polished. The best of the starts
    is returned. The first of several starts, NNDSVD, is standard NMF, so the result is never
    worse than that. A single start (``n_init=1``) is the method of the paper; it is a heuristic,
    and there is no way to know in advance which start will be best.

    Parameters
    ----------
    X : array, sparse matrix, Dask array, DataFrame, Dataset or AnnData (m, n)
        Nonnegative data, dense or CSR/CSC; NaN is missing. float32 and float64 are not converted.
        Names of rows and columns are kept in ``axes`` of the result. A Dask array of dense or CSR
        chunks is processed chunk by chunk, on the active client of `distributed` or else in
        threads; the factor along the chunked axis is returned as a Dask array.
    n_components : int
        Rank r, from 1 to min(m, n).
    weights : array, sparse matrix or Dask array, optional
        The certainty of each entry of X, at least 0: an entry of weight 0 is missing, one of weight
        2 counts as two equal observations. m × n, or one number for each row (m × 1) or column
        (1 × n). Sparse weights are zero where they have no entry.
    layer : str, optional
        Layer of an AnnData to fit instead of its X; "raw" for .raw.
    mask_var : str, optional
        Column of ``var`` of an AnnData that marks the genes to fit, such as "highly_variable".
    n_extra : int, optional
        Number k of extra components; default max(1, round(0.2·r)). r + k is at most min(m, n).
        0 is plain NMF.
    solver : {"accelerated", "hals", "gcd", "alspgrad", "mu"}
        Algorithm of all stages; `nmf` says what they are.
    beta_loss : {"frobenius", "kullback-leibler"}
        What is minimised: half the squared error, or the generalised Kullback–Leibler divergence,
        which suits counts. For this one X is in memory, and the solvers are "accelerated" and "mu".
    missing : {"nan", "zeros"}
        Which entries of X are missing, beside those of weight zero: NaN and masked ones, or also
        those that a sparse X does not store, as in a table of ratings.
    init : {"nndsvd", "nndsvda", "nndsvdar", "random"}, (W0, H0) or a list of these
        Start of the first stage; pass a solution to improve it (the arrays are not changed). A
        list has one entry for each start, all of which are merged, and replaces ``n_init``.
    n_init : int
        Number of starts: ``init`` and random ones. The best is returned, and ``starts`` lists the
        others, and which of them were merged.
    return_all : bool
        Whether to keep the solutions from all starts, in ``solutions``.
    alpha_W, alpha_H : float
        Weights of penalties on W and H, as in scikit-learn's ``NMF``; see `nmf`.
    l1_ratio : float
        Share of L1 in the penalties, from 0 to 1; the rest is L2.
    hold : indices, or a mapping of "W" and "H" to indices, optional
        Components of ``init=(W0, H0)`` that do not change, as in `nmf`. They must be the first
        ones, and are never merged.
    tol : float
        Tolerance of the final stage: it stops when no component moves by more than this,
        relatively.
    tol_intermediate : float, optional
        Tolerance of the initial and over-complete stages; default √tol, or a tenth of it for the
        Kullback–Leibler divergence.
    max_iter : int
        Maximum number of iterations of each stage.
    max_time : float, optional
        Maximum time of all stages together, in seconds.
    random_state : int, Generator, RandomState or None
        Seed of the random starts. None is a fixed seed: the same call gives the same answer.
    callback : callable, optional
        Called with a `Progress` after each iteration; a true return value stops the run.
    checkpoint : path, optional
        File for the state of the run, from which it can continue; see `nmf`.
    n_jobs : int, optional
        Most threads of the fit, all stages and starts together; see `nmf`. None and -1 are as many
        as the machine allows. The result does not depend on it, to the bit.
    device : str or torch.device, optional
        Device of the computation, such as "cuda"; needs PyTorch. X may also be a PyTorch tensor.
    tf32 : bool
        Allow TF32 in products with a float32 X on a GPU, which is faster and less accurate.
    verbose : int
        1 shows a progress bar in a terminal or a notebook, and elsewhere a line after each stage;
        2 prints these lines, and one every 100 iterations.

    Returns
    -------
    Factorization
        With the stages "start", "initial", "recover", "overcomplete", "merge" and "final"; "start"
        and "final" where standard NMF was best.

    Warns
    -----
    ConvergenceWarning
        If the final stage did not converge; the result is kept.
    UserWarning
        If ``n_extra`` was too large for X and was reduced.

    Raises
    ------
    Interrupted
        On Ctrl-C; its ``factorization`` holds the best factors so far.
    DataReadError
        If a chunk of a Dask array cannot be read any more, or its cluster is lost; its
        ``factorization`` holds the factors so far.

    Examples
    --------
    >>> from nmfmerge import datasets, nmf_merge
    >>> result = nmf_merge(datasets.paper_example().X, 4, solver="hals", n_init=1)
    >>> [stage.n_iter for stage in result.stages]
    [0, 11, 0, 13, 0, 2321]
    """
    given = settings.checked("nmf_merge", locals())
    tol, loose = given["tol"], given["tol_intermediate"]
    if loose is None:
        loose = given["tol_intermediate"] = looser(tol, given["beta_loss"])

    def stages(start: Course) -> None:
        start.initialize()
        if k > 0 and start.merges:
            start.set_aside()
            start.solve(StageName.INITIAL, loose)
            start.recover(k, loose)
            start.solve(StageName.OVERCOMPLETE, loose)
            start.merge()
            start.take_back()
        start.solve(StageName.FINAL, tol)

    with at_most(given["n_jobs"]):
        part = part_of(X, given["layer"], given["mask_var"])
        run = prepare(part, given, merges=given["n_extra"] != 0, weights=weights)
        k = extra_components(run.problem, run.n_components, given["n_extra"])
        return run.through(stages)


def recover_components(
    X: Any,
    W: np.ndarray,
    H: np.ndarray,
    n_extra: int,
    *,
    weights: Any = None,
    beta_loss: str = "frobenius",
    missing: str = "nan",
    hold: Hold = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Extend a factorization by components that X has and WH lacks.

    By GSVD feature recovery; under the Kullback–Leibler divergence by the leading singular pairs
    of the score, X/WH − 1 in the metric of the loss.

    Parameters
    ----------
    X : array, sparse matrix or Dask array (m, n)
        Nonnegative data.
    W, H : arrays (m, r) and (r, n)
        An existing factorization; not changed.
    n_extra : int
        How many components to add; r + n_extra is at most min(m, n). More than r are added in
        rounds, with a loose NMF between them.
    weights : array, sparse matrix or Dask array, optional
        Weights of the entries of X; see `nmf`.
    beta_loss : {"frobenius", "kullback-leibler"}
        The loss that W and H were fitted by.
    missing : {"nan", "zeros"}
        Which entries of X are missing; see `nmf`.
    hold : indices, or a mapping of "W" and "H" to indices, optional
        Components that do not change; see `nmf`.

    Returns
    -------
    W, H : arrays (m, r + n_extra) and (r + n_extra, n)
        The old components, rescaled unless they are held, then the new ones. For a Dask array X
        the longer of W and H is the best for the other, and is computed lazily.
    generalized_singular_values : array (n_extra,)
        How much more X has than WH in the direction of each new component, ∞ where WH has nothing;
        under Kullback–Leibler, singular values of the score, relative to the sum of X.
    """
    k = Whole(1).check("n_extra", n_extra)
    W, H = check.check_factors(W, H)
    beta_loss = settings.SETTINGS["beta_loss"].check(beta_loss)
    given = settings.defaults("nmf") | {"n_components": len(H), "init": (W, H), "hold": hold}
    data = check.check_X(X, weights=weights, absent=settings.SETTINGS["missing"].check(missing))
    known = solvers_of(LOSSES[beta_loss].of(data))
    given |= {"beta_loss": beta_loss, "solver": "hals" if "hals" in known else "accelerated"}
    run = prepare(data, given, names=("W", "H"))
    if run.n_components + k > min(run.data.shape):
        raise ArgumentError(
            "n_extra",
            f"is too large: {len(H)} + {k} components exceed the smaller side of X "
            f"{run.data.shape}",
            value=k,
            fix=f"use at most {min(run.data.shape) - len(H)}",
        )

    def stages(start: Course) -> None:
        start.initialize()
        start.recover(k, tol=1e-2)

    result = run.through(stages)
    return result.W, result.H, result.generalized_singular_values


def merge_components(
    W: np.ndarray,
    H: np.ndarray,
    n_components: int = 1,
    *,
    beta_loss: str = "frobenius",
    max_penalty: float | None = None,
    order: Order | None = None,
) -> tuple[np.ndarray, np.ndarray, MergeTree]:
    """Merge components pair by pair, each time the pair that changes WH least.

    Parameters
    ----------
    W, H : arrays (m, r) and (r, n)
        Nonnegative factors; not changed.
    n_components : int
        Stop at this number of components.
    beta_loss : {"frobenius", "kullback-leibler"}
        By which loss a merge changes WH least. Under Kullback–Leibler the penalty is N·I, the
        mutual information of row and column in the pair times its sum.
    max_penalty : float, optional
        Stop before a merge that would change WH by more than this (squared Frobenius norm, or
        divergence).
    order : callable, optional
        ``order(penalty, h2_p, h2_q)``, arrays in, array out: the pair with the least value is
        merged next; h2 are the squared sizes ‖w‖²‖h‖² of the two components, under
        Kullback–Leibler their sums. Default: the penalty.

    Returns
    -------
    W, H : arrays (m, n_components) and (n_components, n)
        Components that were not merged, as they were, then the merged ones in order of merging;
        the norm of a merged column of W is the geometric mean of its parents'.
    tree : MergeTree
        What was merged, and at what penalty.
    """
    given = W
    W, H = check.check_factors(W, H)
    dtype = np.result_type(W, H)
    n_components = Whole(1).check("n_components", n_components)
    if n_components > len(H):
        raise ArgumentError(
            "n_components",
            f"is more than the {len(H)} components of W and H; merging can only reduce their "
            "number",
            value=n_components,
        )
    if max_penalty is not None:
        max_penalty = Number(0).check("max_penalty", max_penalty)
    if order is not None:
        Function().check("order", order)
    Wt, H = (np.ascontiguousarray(F, dtype=dtype) for F in (W.T, H))
    loss = LOSSES[settings.SETTINGS["beta_loss"].check(beta_loss)]
    max_penalty = np.inf if max_penalty is None else max_penalty
    Wt, H, tree = loss.merged(Wt, H, n_components, max_penalty, order)
    return tensors.like(Wt.T, given), tensors.like(H, given), tree


def transform(
    X: Any,
    H: np.ndarray,
    *,
    weights: Any = None,
    beta_loss: str = "frobenius",
    missing: str = "nan",
    alpha_W: float = 0.0,
    l1_ratio: float = 0.0,
) -> np.ndarray:
    """Weights of known components in X: nonnegative least squares, to the exact solution.

    Under the Kullback–Leibler divergence it is a Poisson regression of each row. Rows do not depend
    on one another, so the weights of a Dask array are computed chunk by chunk.

    Parameters
    ----------
    X : array, sparse matrix or Dask array (m, n)
        Nonnegative data.
    H : array (r, n)
        Components, nonnegative.
    weights : array, sparse matrix or Dask array, optional
        Weights of the entries of X; see `nmf`.
    beta_loss : {"frobenius", "kullback-leibler"}
        The loss.
    missing : {"nan", "zeros"}
        Which entries of X are missing; see `nmf`.
    alpha_W, l1_ratio : float
        Penalty on W, as in `nmf`.

    Returns
    -------
    W : array (m, r)
        The W ≥ 0 that minimises the objective, under the squared error each row by an active set;
        for a Dask array X a lazy Dask array.
    """
    absent = settings.SETTINGS["missing"].check(missing)
    if lazy.is_lazy(X):
        data = lazy.checked(X)
        check.check_absent_in_chunks(absent)
    else:
        data = check.check_X(X, weights=weights, absent=absent)
    H = check.check_factor("H", H)
    if H.shape[1] != data.shape[1]:
        raise ArgumentError(
            "H",
            f"has {H.shape[1]} columns and X has {data.shape[1]}",
            expected="components of the length of the rows of X",
        )
    arguments = {"beta_loss": beta_loss, "alpha_W": alpha_W, "l1_ratio": l1_ratio}
    given = {name: settings.SETTINGS[name].check(value) for name, value in arguments.items()}
    loss = LOSSES[given["beta_loss"]]
    penalty = Penalty.of(given["alpha_W"], 0.0, given["l1_ratio"], data.shape)
    solve = partial(_weights, loss=loss, penalty=penalty)
    if lazy.is_lazy(X):
        return lazy.weights(X, H, solve, weights)
    check.check_loss_fits(loss, data)
    check.check_observed(data, ("row",))
    return solve(data, H)


def _weights(matrix: DataMatrix, H: np.ndarray, loss: Loss, penalty: Penalty) -> Any:
    """The best weights of known components in a matrix; the penalty is on those of X itself."""
    penalty = penalty.scaled(matrix.unit, loss.degree, matrix.weight_unit)
    return Problem(matrix, loss, penalty).weights(H)
