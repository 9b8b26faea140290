"""Making one run: what it gives is a record of it, and its factors."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.decomposition import NMF

import nmfmerge
from nmfmerge import metrics, nmf, nmf_merge
from nmfmerge.inputs.check import check_X
from nmfmerge.matrices import DataMatrix
from nmfmerge.method.init import INITS
from reproduce.runs import Run
from reproduce.sets import matrix

MAX_ITER = 1_000_000


@dataclass(frozen=True)
class Made:
    """A run that was made."""

    record: dict
    W: np.ndarray
    H: np.ndarray


def make(run: Run, standard: Made | None = None, checkpoint: Path | None = None) -> Made:
    """Make a run.

    ``standard`` is what was made of the run which it goes on from, if any; ``checkpoint`` a file to
    keep its state in, from which it goes on if it was stopped before.
    """
    X = matrix(run.data)
    began, cpu_began = time.perf_counter(), time.process_time()
    try:
        made = _make(run, X, standard, checkpoint)
    except ValueError:
        if checkpoint is None or not checkpoint.exists():
            raise
        checkpoint.unlink()  # that of a run with other settings, or damaged
        made = _make(run, X, standard, checkpoint)
    share = (time.process_time() - cpu_began) / (time.perf_counter() - began)
    record = _scaled(made.record, min(1.0, share))
    return Made(_joined(standard.record, record) if standard else record, made.W, made.H)


def _scaled(record: dict, share: float) -> dict:
    """Times of the processor, which had this run for a share of the time that went by."""
    return record | {
        "seconds": share * record["seconds"],
        "stages": [stage | {"seconds": share * stage["seconds"]} for stage in record["stages"]],
        "trace": [(name, round(share * t, 6), error) for name, t, error in record["trace"]],
    }


def _make(run: Run, X, standard: Made | None, checkpoint: Path | None) -> Made:
    if run.method == "sklearn":
        return _make_sklearn(run, X)
    trace = Trace()
    options = {"solver": run.solver, "tol": run.tol, "max_iter": MAX_ITER, "callback": trace,
               "checkpoint": checkpoint}  # fmt: skip
    start = {"init": run.init, "random_state": run.seed}
    if run.init == "random":  # components then stay in their order, in which a run goes on
        start["init"] = first_factors(run, check_X(X))
    if run.method == "nmf":
        result = nmf(X, run.rank, **options, **start)
        return Made(_record(result, trace), result.W, result.H)
    options |= {"n_extra": run.extra, "tol_intermediate": run.loose, "n_init": 1}
    if standard is not None:
        result = nmf_merge(X, run.rank, **options, init=(standard.W, standard.H))
    else:
        result = nmf_merge(X, run.rank, **options, **start)
    return Made(_record(result, trace), result.W, result.H)


def first_factors(run: Run, data: DataMatrix) -> tuple[np.ndarray, np.ndarray]:
    """The factors of X that a run begins with."""
    Wt, H = INITS[run.init](data, run.rank, np.random.default_rng(run.seed), None)
    return Wt.T * data.unit, H * data.unit


class Trace:
    """A callback that asks for the fitting error at iterations in geometric progression."""

    def __init__(self) -> None:
        self.points: list[tuple[str, float, float]] = []
        self._stage, self._next = "", 1

    def __call__(self, progress) -> None:
        """Note the error of an iteration whose turn it is."""
        if progress.stage != self._stage:
            self._stage, self._next = progress.stage, 1
        if progress.iteration == self._next:
            self._next = max(self._next + 1, int(1.2 * self._next))
            self.points.append((progress.stage, progress.seconds, progress.fitting_error))


def _record(result: nmfmerge.Factorization, trace: Trace) -> dict:
    stages = [
        {"name": stage.name, "seconds": stage.seconds, "n_iter": stage.n_iter,
         "error": stage.fitting_error}
        for stage in result.stages
        if stage.name != "start"  # which the paper does not count
    ]  # fmt: skip
    ends, clock = [], 0.0
    for stage in result.stages:
        clock = stage.history.seconds[-1] if stage.history else clock + stage.seconds
        if stage.name != "start":
            ends.append((stage.name, float(clock), stage.fitting_error))
    points = sorted([*trace.points, *ends], key=lambda point: point[1])
    return {
        "error": result.fitting_error,
        "seconds": result.seconds,
        "n_iter": result.n_iter,
        "converged": result.converged,
        "stages": stages,
        "trace": [(name, round(seconds, 6), error) for name, seconds, error in points],
    }


def _joined(standard: dict, merge: dict) -> dict:
    """The record of NMF-Merge whose initial stage is a standard run made before."""
    before = [("initial", seconds, error) for _, seconds, error in standard["trace"]]
    skipped = max(t for name, t, _ in merge["trace"] if name == "initial")
    shift = before[-1][1] - skipped
    after = [(name, t + shift, error) for name, t, error in merge["trace"] if name != "initial"]
    whole = _with_initial_stage(standard, merge)
    return whole | {"seconds": merge["seconds"] + shift, "trace": before + after}


def _with_initial_stage(standard: dict, merge: dict) -> dict:
    """Put the standard run in the place of the few iterations that saw that it had converged."""
    initial = standard["stages"][-1] | {"name": "initial"}
    begun = next(stage for stage in merge["stages"] if stage["name"] == "initial")
    return merge | {
        "n_iter": merge["n_iter"] - begun["n_iter"] + initial["n_iter"],
        "stages": [initial if stage is begun else stage for stage in merge["stages"]],
    }


def record_of_batch(
    result: nmfmerge.Factorization, batch: dict, standard: dict | None = None
) -> dict:
    """The record of a run made in a batch, which has no times of its own: they are None.

    ``batch`` is the number of starts and the seconds of all together; ``standard`` the record of the
    run which this one goes on from, if any.
    """
    record = _record(result, Trace())
    timeless = {
        "seconds": None,
        "stages": [stage | {"seconds": None} for stage in record["stages"]],
        "trace": [],
        "batch": batch,
    }
    record |= timeless
    return _with_initial_stage(standard, record) if standard else record


def _make_sklearn(run: Run, X) -> Made:
    init = None if run.init == "default" else run.init
    model = NMF(run.rank, init=init, tol=run.tol, max_iter=MAX_ITER, random_state=run.seed)
    began = time.perf_counter()
    W = model.fit_transform(X)
    seconds = time.perf_counter() - began
    record = {
        "error": metrics.fitting_error(X, W, model.components_),
        "seconds": seconds,
        "n_iter": int(model.n_iter_),
        "converged": model.n_iter_ < MAX_ITER,
        "stages": [],
        "trace": [],
    }
    return Made(record, W, model.components_)
