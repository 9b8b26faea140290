"""`nmf` and `nmf_merge`, and the single steps `recover_components` and `merge_components`."""

import warnings
from collections.abc import Iterable, Mapping
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np

from nmfmerge import lazy, tensors
from nmfmerge import validation as check
from nmfmerge.beginning import StartMaker
from nmfmerge.checkpoint import Checkpoint
from nmfmerge.data import DataMatrix
from nmfmerge.data.digest import digest
from nmfmerge.data.weights import weights
from nmfmerge.held import Held
from nmfmerge.init import INITS
from nmfmerge.merge import MergeTree, Order, merge
from nmfmerge.progress import MERGED, PLAIN
from nmfmerge.result import Factorization
from nmfmerge.run import Run
from nmfmerge.solvers import SOLVERS, Limits, Solver
from nmfmerge.solvers.loop import Callback

RandomState = int | np.random.Generator | np.random.RandomState | None
Start = str | tuple[np.ndarray, np.ndarray]
Init = Start | list[Start]
Hold = Iterable[int] | Mapping[str, Iterable[int]] | None


def nmf(
    X: Any,
    n_components: int,
    *,
    solver: str = "accelerated",
    init: Init = "nndsvd",
    n_init: int = 1,
    keep_all: bool = False,
    hold: Hold = None,
    tol: float = 1e-4,
    max_iter: int = 10_000,
    max_time: float | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
    checkpoint: str | PathLike[str] | None = None,
    device: Any = None,
    tf32: bool = False,
    verbose: int = 0,
) -> Factorization:
    r"""Factorize a nonnegative matrix, X ≈ WH, by one solver from one start or several.

    .. math:: \min_{W \ge 0,\, H \ge 0} \tfrac12 \lVert X - WH \rVert_F^2

    Parameters
    ----------
    X : array, sparse matrix, Dask array, DataFrame, Dataset or AnnData (m, n)
        Nonnegative data, dense or CSR/CSC; float32 and float64 are used as they are. Names of rows
        and columns are kept in ``axes`` of the result. A Dask array,
        of dense or CSR chunks, is gone through chunk by chunk: on the active client of
        `distributed`, else in threads; the factor along its chunks comes back as one, too.
    n_components : int
        Rank r, from 1 to min(m, n).
    solver : {"accelerated", "hals", "gcd", "alspgrad", "mu"}
        Algorithm. "accelerated" is HALS with extrapolation: as good at the same ``tol``, and
        several times faster.
    init : {"nndsvd", "nndsvda", "nndsvdar", "random"}, (W0, H0) or a list of these
        Start; given factors are not changed. A list has one entry for each start and takes the
        place of ``n_init``.
    n_init : int
        Number of starts: ``init`` and random ones. They are carried through together, which takes
        less time than one after the other; the best comes back, and ``starts`` says what the
        others came to.
    keep_all : bool
        Whether to keep the solutions from all starts, in ``solutions``.
    hold : indices, or a mapping of "W" and "H" to indices, optional
        Components of ``init=(W0, H0)`` that stay as they are, to the bit in the precision of X,
        while the others are fitted: ``[0, 1]`` holds columns of W and rows of H,
        ``{"H": [0, 1]}`` rows of H alone, for known spectra whose amounts are sought.
    tol : float
        Stop when no component moves by more than this, relatively:
        ‖new − old‖ ≤ tol·‖new + old‖ for every column of W and row of H.
    max_iter : int
        Most iterations.
    max_time : float, optional
        Most seconds.
    random_state : int, Generator, RandomState or None
        Seed of the random starts. None is a fixed seed: the same call gives the same answer.
    callback : callable, optional
        Called with a `Progress` after each iteration; a true return value stops the run.
    checkpoint : path, optional
        File to keep the state of the run in. If it exists, the run continues from it; on the
        same machine with as many threads it ends at the bits of a run that was never killed (to
        rounding, from several starts on a device). A
        run that reached its limits continues its last stage when they are raised. A file
        that is damaged, or of other data or settings, is refused. The file is not deleted.
    device : str or torch.device, optional
        Where to compute, such as "cuda"; needs PyTorch. X may be a PyTorch tensor too, which is
        used where it is; results come back in kind.
    tf32 : bool
        Whether products with a float32 X on a GPU may use TF32: several times faster, with errors
        of 1e-3 instead of 1e-7 in them.
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
    Unreadable
        If a chunk of a Dask array cannot be read any more, or its cluster is lost; its
        ``factorization`` holds the factors so far.

    Examples
    --------
    >>> from nmfmerge import datasets, nmf
    >>> nmf(datasets.paper_example().X, 4, solver="hals").n_iter
    575
    """
    tol = check.check_real("tol", tol, low=0)
    run = _prepare(
        X, n_components, solver, init, max_iter, max_time, random_state, callback, verbose,
        n_init=n_init, keep_all=keep_all, hold=hold, device=device, tf32=tf32,
        checkpoint=checkpoint, settings={"tol": tol},
    )  # fmt: skip
    with run:
        run.initialize()
        run.solve("final", tol)
    return run.result()


def nmf_merge(
    X: Any,
    n_components: int,
    *,
    n_extra: int | None = None,
    solver: str = "accelerated",
    init: Init = "nndsvd",
    n_init: int = 4,
    keep_all: bool = False,
    hold: Hold = None,
    tol: float = 1e-4,
    tol_intermediate: float | None = None,
    max_iter: int = 10_000,
    max_time: float | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
    checkpoint: str | PathLike[str] | None = None,
    device: Any = None,
    tf32: bool = False,
    verbose: int = 0,
) -> Factorization:
    """Factorize a nonnegative matrix, X ≈ WH, by NMF-Merge (Guo & Holy).

    From each start, a loose NMF of rank r is extended by ``n_extra`` components that it missed,
    refined, merged back to r by the optimal pairwise merge, and polished. The best of the starts
    comes back. The first of several starts, NNDSVD, is standard NMF to the end: the result is never
    worse than that. A single start (``n_init=1``) is the method of the paper; it is a heuristic,
    and there is no way to know in advance which start will be best.

    Parameters
    ----------
    X : array, sparse matrix, Dask array, DataFrame, Dataset or AnnData (m, n)
        Nonnegative data, dense or CSR/CSC; float32 and float64 are used as they are. Names of rows
        and columns are kept in ``axes`` of the result. A Dask array,
        of dense or CSR chunks, is gone through chunk by chunk: on the active client of
        `distributed`, else in threads; the factor along its chunks comes back as one, too.
    n_components : int
        Rank r, from 1 to min(m, n).
    n_extra : int, optional
        Number k of extra components; default max(1, round(0.2·r)). r + k is at most min(m, n).
        0 is plain NMF.
    solver : {"accelerated", "hals", "gcd", "alspgrad", "mu"}
        Algorithm of all stages; `nmf` says what they are.
    init : {"nndsvd", "nndsvda", "nndsvdar", "random"}, (W0, H0) or a list of these
        Start of the first stage; a solution that is given is improved, and not changed itself. A
        list has one entry for each start, all of which are merged, and takes the place of
        ``n_init``.
    n_init : int
        Number of starts: ``init`` and random ones. They are carried through together; the best
        comes back, and ``starts`` says what the others reached, and which of them were merged.
    keep_all : bool
        Whether to keep the solutions from all starts, in ``solutions``.
    hold : indices, or a mapping of "W" and "H" to indices, optional
        Components of ``init=(W0, H0)`` that stay as they are, as in `nmf`. They must be the first
        ones, and are never merged.
    tol : float
        Tolerance of the final stage: it stops when no component moves by more than this,
        relatively.
    tol_intermediate : float, optional
        Tolerance of the initial and over-complete stages; default √tol.
    max_iter : int
        Most iterations of each stage.
    max_time : float, optional
        Most seconds of all stages together.
    random_state : int, Generator, RandomState or None
        Seed of the random starts. None is a fixed seed: the same call gives the same answer.
    callback : callable, optional
        Called with a `Progress` after each iteration; a true return value stops the run.
    checkpoint : path, optional
        File to keep the state of the run in, and to continue from; see `nmf`.
    device : str or torch.device, optional
        Where to compute, such as "cuda"; needs PyTorch. X may be a PyTorch tensor too.
    tf32 : bool
        Whether products with a float32 X on a GPU may use TF32, which is faster and less accurate.
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
    Unreadable
        If a chunk of a Dask array cannot be read any more, or its cluster is lost; its
        ``factorization`` holds the factors so far.

    Examples
    --------
    >>> from nmfmerge import datasets, nmf_merge
    >>> result = nmf_merge(datasets.paper_example().X, 4, solver="hals", n_init=1)
    >>> [stage.n_iter for stage in result.stages]
    [0, 11, 0, 13, 0, 2321]
    """
    tol = check.check_real("tol", tol, low=0)
    loose = check.check_optional_real("tol_intermediate", tol_intermediate, low=0)
    loose = float(np.sqrt(tol)) if loose is None else loose
    k = None if n_extra is None else check.check_integer("n_extra", n_extra, low=0)
    run = _prepare(
        X, n_components, solver, init, max_iter, max_time, random_state, callback, verbose,
        n_init=n_init, keep_all=keep_all, hold=hold, device=device, tf32=tf32,
        checkpoint=checkpoint, settings={"tol": tol, "tol_intermediate": loose, "n_extra": k},
        merges=k != 0,
    )  # fmt: skip
    k = _extra_components(k, run.n_components, run.data.shape, _first_held(run.held))
    with run:
        run.initialize()
        if k > 0:
            run.set_aside()
            run.solve("initial", loose)
            run.recover(k, loose)
            run.solve("overcomplete", loose)
            run.merge()
            run.take_back()
        run.solve("final", tol)
    return run.result()


def recover_components(
    X: Any, W: np.ndarray, H: np.ndarray, n_extra: int, *, hold: Hold = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Extend a factorization by components that X has and WH lacks (GSVD feature recovery).

    Parameters
    ----------
    X : array, sparse matrix or Dask array (m, n)
        Nonnegative data.
    W, H : arrays (m, r) and (r, n)
        An existing factorization; not changed.
    n_extra : int
        How many components to add; r + n_extra is at most min(m, n). More than r are added in
        rounds, with a loose NMF between them.
    hold : indices, or a mapping of "W" and "H" to indices, optional
        Components that stay as they are; see `nmf`.

    Returns
    -------
    W, H : arrays (m, r + n_extra) and (r + n_extra, n)
        The old components, rescaled unless they are held, then the new ones. For a Dask array X
        the longer of W and H is the best for the other, and computed when it is asked for.
    generalized_singular_values : array (n_extra,)
        How much more X has than WH in the direction of each new component, ∞ where WH has nothing.
    """
    k = check.check_integer("n_extra", n_extra, low=1)
    W, H = check.check_factors(W, H)
    run = _prepare(X, len(H), init=(W, H), names=("W", "H"), hold=hold)
    if run.n_components + k > min(run.data.shape):
        raise ValueError(
            f"n_extra={k} is too large: {len(H)} + {k} components exceed the smaller side of X "
            f"{run.data.shape}; use at most {min(run.data.shape) - len(H)}"
        )
    with run:
        run.initialize()
        run.recover(k, tol=1e-2)
    result = run.result()
    return result.W, result.H, result.generalized_singular_values


def merge_components(
    W: np.ndarray,
    H: np.ndarray,
    n_components: int = 1,
    *,
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
    max_penalty : float, optional
        Stop before a merge that would change WH by more than this (squared Frobenius norm).
    order : callable, optional
        ``order(penalty, h2_p, h2_q)``, arrays in, array out: the pair with the least value is
        merged next; h2 are the squared sizes ‖w‖²‖h‖² of the two components. Default: the penalty.

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
    n_components = check.check_integer("n_components", n_components, low=1)
    if n_components > len(H):
        raise ValueError(
            f"n_components={n_components} is more than the {len(H)} components of W and H; "
            "merging can only reduce their number"
        )
    largest = check.check_optional_real("max_penalty", max_penalty, low=0)
    check.check_callable("order", order)
    Wt, H, tree = merge(
        np.ascontiguousarray(W.T, dtype=dtype),
        np.ascontiguousarray(H, dtype=dtype),
        n_components,
        np.inf if largest is None else largest,
        order,
    )
    return tensors.like(Wt.T, given), tensors.like(H, given), tree


def transform(X: Any, H: np.ndarray) -> np.ndarray:
    """Weights of known components in X: nonnegative least squares, to the exact solution.

    Parameters
    ----------
    X : array, sparse matrix or Dask array (m, n)
        Nonnegative data.
    H : array (r, n)
        Components, nonnegative.

    Returns
    -------
    W : array (m, r)
        The W ≥ 0 that minimises ‖X − WH‖, each row by an active set; for a Dask array X one that
        is computed when it is asked for.
    """
    data = lazy.checked(X) if lazy.is_lazy(X) else check.check_X(X)
    H = check.check_factor("H", H)
    if H.shape[1] != data.shape[1]:
        raise ValueError(
            f"H has {H.shape[1]} columns and X has {data.shape[1]}; expected components of the "
            "length of the rows of X"
        )
    return lazy.weights(X, H) if lazy.is_lazy(X) else weights(data, H)


def _prepare(
    X: Any,
    n_components: Any,
    solver: Any = "hals",
    init: Any = "nndsvd",
    max_iter: Any = 10_000,
    max_time: Any = None,
    random_state: Any = None,
    callback: Any = None,
    verbose: Any = 0,
    names: tuple[str, str] = check.INIT_NAMES,
    n_init: Any = 1,
    keep_all: Any = False,
    hold: Any = None,
    device: Any = None,
    tf32: Any = False,
    checkpoint: Any = None,
    settings: dict[str, Any] | None = None,
    merges: bool = False,
) -> Run:
    """Check all arguments that the entry points share, X last, and make the run."""
    solver = SOLVERS[check.check_word("solver", solver, SOLVERS)]
    limits = Limits.checked(max_iter, max_time, callback, verbose)
    n_init = check.check_integer("n_init", n_init, low=1)
    rng = check.check_random_state(random_state)
    inits = check.check_inits(init, n_init, INITS)
    data = check.check_X(X, device, bool(tf32))
    check.check_solver_fits(solver, data)
    r = check.check_n_components(n_components, data.shape)
    held = check.check_hold(hold, inits[0], r)
    check.check_held_fits(held, data)
    uneven = solver is not SOLVERS["mu"]  # its offset is relative to the mean over all components
    maker = StartMaker(data, r, rng, names, held, uneven, inits[0])
    # With several starts the first is standard NMF, unless the user says what each of them is: so
    # the best of them is never worse than that.
    first_merges = len(inits) == 1 or not (isinstance(init, str) and init.startswith("nndsvd"))
    beginnings = maker.beginnings(inits, random_state, merges, first_merges)
    file = None
    if checkpoint is not None:
        path = check.check_file("checkpoint", checkpoint)
        settings = (settings or {}) | ({"hold": held.as_lists()} if held else {})
        file = Checkpoint(path, _identity(data, r, solver, inits, random_state, **settings))
    given = None if held is None else (inits[0][0].T, inits[0][1])
    named = all(isinstance(init, str) for init in inits)
    sort = held is None and (merges or named)  # else the order of components is the user's
    plan = MERGED if merges else PLAIN
    return Run(data, r, solver, limits, beginnings, file, held, given, bool(keep_all), sort, plan)


def _identity(
    data: DataMatrix,
    r: int,
    solver: type[Solver],
    inits: list[Any],
    random_state: Any,
    **settings: Any,
) -> dict[str, Any]:
    """What decides the result of a run; a checkpoint with another identity is refused."""
    if random_state is not None and not isinstance(random_state, Integral):
        raise ValueError(
            f"random_state is a {type(random_state).__name__}; with a checkpoint it must be a "
            "number or None, so that the run can be repeated"
        )
    words = [
        init if isinstance(init, str) else f"given factors {digest('init', init)}" for init in inits
    ]
    return {
        "shape": list(data.shape),
        "dtype": str(data.dtype),
        "data": data.digest(),
        "n_components": r,
        "solver": solver.__name__,
        "init": words[0] if set(words[1:]) <= {"random"} else words,
        "n_init": len(words),
        "random_state": None if random_state is None else int(random_state),
        **settings,
    }


def _first_held(held: Held | None) -> int:
    """Number of held components; they must be the first, so that they stay where they are."""
    indices = [] if held is None else np.flatnonzero(held.either).tolist()
    if indices != list(range(len(indices))):
        raise ValueError(
            f"hold names the components {indices}; in NMF-Merge, which merges others and renumbers "
            "them, held components must be the first ones: put them first in init"
        )
    return len(indices)


def _extra_components(k: int | None, r: int, shape: tuple[int, int], n_held: int) -> int:
    """Number of extra components: the default is a fifth of r; r + k is at most min(m, n).

    None where all components are held, as there is nothing to merge them with.
    """
    if n_held == r:
        return 0
    room = min(shape) - r
    k = max(1, round(0.2 * r)) if k is None else k
    if k > room:
        warnings.warn(
            f"n_extra={k} was reduced to {room}: n_components={r} and n_extra together may not "
            f"exceed the smaller side of X {shape}" + (", so this is plain NMF" * (room == 0)),
            UserWarning,
            stacklevel=3,
        )
    return min(k, room)
