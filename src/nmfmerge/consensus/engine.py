"""Run `nmfmerge.consensus`: check the settings, make all fits, and the consensus of each rank."""

from collections.abc import Mapping
from typing import Any

from nmfmerge.arguments.errors import ArgumentError, Given, Message
from nmfmerge.consensus.checkpoint import FitsFile
from nmfmerge.consensus.fit import Method
from nmfmerge.consensus.fits import FITS, Fits, n_kept
from nmfmerge.consensus.resample import Resampler, n_drawn
from nmfmerge.consensus.summary import Summary
from nmfmerge.inputs import check, tensors
from nmfmerge.inputs.labels import matrix_of
from nmfmerge.losses import LOSSES
from nmfmerge.matrices import DataMatrix, Side
from nmfmerge.method.prepare import looser
from nmfmerge.method.stop import Interrupted, computing, warn_not_converged
from nmfmerge.results.consensus import Consensus
from nmfmerge.solvers import Limits, check_solver_fits, solver_of
from nmfmerge.solvers.history import Status

_DECIDING = ("resample", "merge", "beta_loss", "solver", "tol", "max_iter")
FIT_STAGES = {FITS: 75.0, "consensus": 5.0}  # of the bar
_LEAST_FITS = 2  # that can agree


class ConsensusInterrupted(Interrupted):
    """Ctrl-C during `consensus`; ``consensus`` is that of the fits that were finished."""

    def __init__(self, consensus: Consensus) -> None:
        KeyboardInterrupt.__init__(
            self,
            f"interrupted after {consensus.seconds:.3g} s; the consensus of the finished fits is "
            "in the attribute `consensus` of this exception (in an interactive session: "
            "sys.last_value.consensus)",
        )
        self.consensus = consensus
        self.factorization = consensus.results[-1].factorization

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        return type(self), (self.consensus,)


def run(X: Any, given: Mapping[str, Any], weights: Any = None) -> Consensus:
    """The consensus, from checked settings."""
    loss, limits = LOSSES[given["beta_loss"]], Limits.of(given)
    solver_of(given["solver"], loss)  # before X is looked at
    data, device = _on_host(X, given, weights)
    loss = loss.of(data)
    solver = solver_of(given["solver"], loss)
    check.check_loss_fits(loss, data)
    check_solver_fits(solver, loss, data)
    side = _side(given["resample"], given["side"])
    _check_ranks(given["ranks"], data.shape, given["resample"])
    loose = looser(given["tol"], given["beta_loss"])
    method = Method(loss, solver, given["tol"], loose, given["merge"], side)
    seed, file = _seed(given), None
    if given["checkpoint"] is not None:
        file = FitsFile(given["checkpoint"], _identity(data, given, side))
    with computing(data, limits, FIT_STAGES) as limits:
        resampler = Resampler(data, given["resample"], seed, device, n_kept())
        if device is not None:
            placed = resampler.matrix(0)
            check.check_loss_fits(loss, placed)
            check_solver_fits(solver, loss, placed)
        fits = Fits(method, resampler, given["ranks"], given["n_fits"], seed, limits, file)
        if limits.bar is not None:
            limits.bar.enter(FITS, text=_bar_text(given))
        fits.run()
        result = _summarised(fits, data, given, limits)
    if result.status is Status.INTERRUPTED:
        raise ConsensusInterrupted(result)
    if result.status in (Status.MAX_TIME, Status.MAX_ITER):
        _warn(result, fits, limits)
    return result


def _summarised(
    fits: Fits, data: DataMatrix, given: Mapping[str, Any], limits: Limits
) -> Consensus:
    """The consensus of all ranks that have fits enough."""
    summary = Summary(data, fits.method, given["density_threshold"])
    by_rank = {rank: fits.of(rank) for rank in fits.ranks}
    usable = [rank for rank in fits.ranks if len(by_rank[rank]) >= _LEAST_FITS]
    status = fits.stopped
    if not usable:
        if status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # there is nothing to keep
        raise ArgumentError(
            "max_time" if status is Status.MAX_TIME else "callback",
            f"ended the run before there were {_LEAST_FITS} fits at any rank",
            fix="allow more time",
        )
    if limits.bar is not None:
        limits.bar.enter("consensus")
    results = []
    for i, rank in enumerate(usable):
        try:
            result = summary.of(by_rank[rank], judge=status is None)
        except KeyboardInterrupt:  # the fits are done: what is left takes little time
            status = Status.INTERRUPTED
            result = summary.of(by_rank[rank], judge=False)
        results.append(result)
        if limits.prints_stages:
            print(result, flush=True)
        if limits.bar is not None:
            limits.bar.part((i + 1) / len(usable))
    if status is None:
        late = any(fit.status is Status.MAX_ITER for known in by_rank.values() for fit in known)
        status = Status.MAX_ITER if late else Status.CONVERGED
    return Consensus(results, given["resample"], given["merge"], status, limits.elapsed())


def _on_host(X: Any, given: Mapping[str, Any], weights: Any) -> tuple[DataMatrix, Any]:
    """X in memory, and the device of the fits: None for the CPU."""
    matrix, device = matrix_of(X), given["device"]
    if tensors.is_tensor(matrix) and not tensors.is_host(matrix.device):
        device = matrix.device if device is None else device
        X = matrix.cpu()
    data = check.check_X_on_host(X, "consensus", weights, given["missing"])
    check.check_observed(data)
    return data, None if device is None or tensors.is_host(device) else device


def _side(resample: str | None, side: Side | None) -> Side:
    """The side whose components are matched; it must be the one that all fits have in full."""
    drawn = {"rows": "W", "columns": "H"}.get(resample or "")
    if side is None:
        return "W" if drawn == "H" else "H"
    if side == drawn:
        other = "H" if side == "W" else "W"
        raise ArgumentError(
            "side",
            "cannot be matched with {resample}: each fit has other "
            + ("rows" if side == "W" else "columns"),
            value=side,
            fix=f"use side={other!r}",
            resample=Given("resample", resample),
        )
    return side


def _check_ranks(ranks: tuple[int, ...], shape: tuple[int, int], resample: str | None) -> None:
    m, n = shape
    m = n_drawn(m) if resample == "rows" else m
    n = n_drawn(n) if resample == "columns" else n
    if max(ranks) > min(m, n):
        drawn = f" (of which each fit has {m} × {n})" if resample in ("rows", "columns") else ""
        raise ArgumentError(
            "ranks",
            f"go up to {max(ranks)}, too high for X with {shape[0]} rows and {shape[1]} columns"
            + drawn,
            fix=f"use at most {min(m, n)}",
        )


def _seed(given: Mapping[str, Any]) -> int:
    random_state = given["random_state"]
    if random_state is None or isinstance(random_state, int):
        return int(random_state or 0)
    if given["checkpoint"] is not None:
        raise ArgumentError(
            "random_state",
            f"is a {type(random_state).__name__}",
            expected="a number or None with {checkpoint}, so that the run can be repeated",
        )
    return int(check.generator(random_state).integers(2**32))


def _identity(data: DataMatrix, given: Mapping[str, Any], side: str) -> dict[str, Any]:
    """The settings that decide a fit; the number of fits and the ranks do not."""
    return {
        "shape": list(data.shape),
        "dtype": str(data.dtype),
        "length": data.shape[0] if side == "W" else data.shape[1],
        "data": data.identity(),
        "random_state": int(given["random_state"] or 0),
        **{name: given[name] for name in _DECIDING},
        "side": side,
    }


def _bar_text(given: Mapping[str, Any]) -> str:
    ranks = given["ranks"]
    which = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"
    return f"{given['n_fits']} fits of {which}"


def _warn(result: Consensus, fits: Fits, limits: Limits) -> None:
    made = [fit for rank in fits.ranks for fit in fits.of(rank)]
    wanted = len(fits.ranks) * fits.n_fits
    if result.status is Status.MAX_TIME:
        reason = "{made} of {wanted} fits were finished when {limit} s had passed"
        limit = Given("max_time", limits.max_time)
    else:
        reason = "{late} of {wanted} fits had not converged after {limit} iterations"
        limit = Given("max_iter", limits.max_iter)
    late = sum(fit.status is Status.MAX_ITER for fit in made)
    message = Message(
        reason + "; the consensus is of the fits as they are. Raise that limit or {tol}.",
        made=len(made), wanted=wanted, late=late, limit=limit,
    )  # fmt: skip
    warn_not_converged(message, stacklevel=4)
