"""One bar for a whole job, in terminals and notebooks, by tqdm.

A job has stages with weights. Within a stage that iterates, the bar follows the step of every start
on its way down to the tolerance, on a logarithmic scale: half way means half way in the logarithm.
"""

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from math import log
from threading import Lock
from time import monotonic
from typing import Any, Protocol, TextIO

from nmfmerge.solvers.history import STAGES_OF_MERGE, STAGES_OF_NMF, StageName

_SECONDS = 0.1  # from one drawing to the next
_WINDOW = 5.0  # seconds over which throughput is measured
_PARTS = 1000  # of the bar
_WORDS: dict[str, str] = {
    StageName.START: "start",
    StageName.INITIAL: "first fit",
    StageName.RECOVER: "adding components",
    StageName.OVERCOMPLETE: "fit with extra components",
    StageName.MERGE: "merging",
    StageName.FINAL: "final fit",
}
_OF_RANK = {StageName.START: "fit of", StageName.MERGE: "down to", StageName.RECOVER: "up to"}
_FORMAT = "{desc} {percentage:3.0f} % |{bar}| {elapsed}{postfix}"

# Stages with the share of the time that they usually take.
PLAIN: dict[str, float] = dict(zip(STAGES_OF_NMF, (2.0, 98.0), strict=True))
MERGED: dict[str, float] = dict(
    zip(STAGES_OF_MERGE, (2.0, 18.0, 5.0, 15.0, 1.0, 59.0), strict=True)
)


def section_stages(name: str, stages: Mapping[str, float], weight: float) -> dict[str, float]:
    """The stages of one of several fits of a job, which together have a weight."""
    total = sum(stages.values()) or 1.0
    return {_full(name, stage): weight * share / total for stage, share in stages.items()}


def _full(section: str, stage: str) -> str:
    return f"{section}: {stage}" if section else stage


class Iteration(Protocol):
    """How far one start of a stage is."""

    stage: str
    step: float
    tol: float
    start: int

    @property
    def fitting_error(self) -> float:
        """The fitting error now, in percent."""
        ...


def rank_stage(how: StageName, rank: int) -> str:
    """The stage of a path that polishes a start for a rank; ``how`` the start was made."""
    return f"{_OF_RANK[how]} {rank}"


def path_stages(n_max: int, n_min: int, stability: bool, n_masks: int = 0) -> dict[str, float]:
    """The stages of a path through all ranks: the highest, then down and up again.

    Then come those of the halves of the data, and of ``n_masks`` parts of its entries.
    """
    down = [rank_stage(StageName.MERGE, rank) for rank in range(n_max - 1, n_min - 1, -1)]
    up = [rank_stage(StageName.RECOVER, rank) for rank in range(n_min + 1, n_max + 1)]
    whole = (
        {rank_stage(StageName.START, n_max): 3.0}
        | dict.fromkeys(down, 1.0)
        | dict.fromkeys(up, 1.0)
    )
    halves = ("half 1: ", "half 2: ") if stability else ()
    more = {f"{half}{name}": 0.5 * w for half in halves for name, w in whole.items()}
    masks = [f"mask {i + 1}: " for i in range(n_masks)]
    return whole | more | {f"{mask}{name}": w for mask in masks for name, w in whole.items()}


class ProgressBar:
    """A bar that goes through the stages of a job; it is silent where nothing can be redrawn.

    Given to a fit as its ``callback``, it follows the fit without slowing it down.

    Parameters
    ----------
    plan : mapping of str to float
        Stages in their order, with the share of the time that each may take.
    stream : stream, optional
        Where to draw; default stderr. In a notebook it is drawn below the cell.
    """

    def __init__(self, plan: Mapping[str, float], stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._total = sum(plan.values()) or 1.0
        self._weights = dict(plan)
        self._begins = {name: sum(list(plan.values())[:i]) for i, name in enumerate(plan)}
        self._bar: Any = _tqdm(self._stream) if is_live(self._stream) else None
        self._stage, self._n_starts = "", 1
        self._section = ""
        self._first: dict[int, float] = {}  # first step of each start in this stage
        self._parts: dict[int, float] = {}  # how far each start is in this stage, from 0 to 1
        self._error: float | None = None
        self._throughput = Throughput()
        self._next = 0.0
        self._lock = Lock()  # of lanes, whose threads move it
        self._lanes: dict[int, tuple[float, float | None]] = {}

    def __call__(self, progress: Iteration) -> None:
        """Follow an iteration, as a callback."""
        self.note(progress)

    def section(self, name: str) -> None:
        """Begin a section of the job: the stages that follow are its own, see `section_stages`."""
        self._section, self._n_starts, self._error, self._lanes = name, 1, None, {}

    def enter(self, stage: str, n_starts: int = 1, text: str | None = None) -> None:
        """Begin a stage; ``text`` says what it is."""
        if self._bar is None:
            return
        self._stage, self._n_starts = stage, n_starts
        self._first, self._parts = {}, {}
        self._throughput = Throughput()
        words = text or _full(self._section, _WORDS.get(stage, stage))
        self._bar.set_description_str(words, refresh=False)
        self._draw()

    def note(self, progress: Iteration, error: bool = True) -> None:
        """Note an iteration; ``error`` says whether the fitting error may be computed."""
        if self._bar is None:
            return
        if progress.stage != self._stage:
            self.enter(progress.stage, self._n_starts)
        first = self._first.setdefault(progress.start, progress.step)
        part = _way(first, progress.step, progress.tol)
        self._parts[progress.start] = max(part, self._parts.get(progress.start, 0.0))
        if monotonic() >= self._next:
            if error:
                self._error = progress.fitting_error
            self._throughput.note(_data_of(progress))
            self._draw()

    def part(self, share: float) -> None:
        """Note the done fraction of a stage that does not iterate."""
        if self._bar is not None:
            self._parts = {0: share}
            self._draw()

    def done(self, stage: str, error: float | None = None) -> None:
        """End a stage, with the least fitting error after it."""
        if self._bar is None:
            return
        self._error = error if error is not None else self._error
        if stage != self._stage:
            self.enter(stage, self._n_starts)
        self._parts = dict.fromkeys(range(self._n_starts), 1.0)
        self._draw()

    def write(self, text: str) -> None:
        """Print a line above the bar."""
        if self._bar is None:
            print(text, file=self._stream, flush=True)
        else:
            self._bar.write(text, file=self._stream)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def lanes(self, n: int) -> "list[ProgressBar]":
        """One bar for each of ``n`` threads; this bar shows their mean."""
        return [self] if n == 1 else [_Lane(self, n) for _ in range(n)]

    def follow(self, lane: "ProgressBar", n: int) -> None:
        """Update the bar after one of ``n`` lanes has moved."""
        with self._lock:
            if self._bar is None:
                return
            before, _ = self._lanes.get(id(lane), (0.0, None))
            self._lanes[id(lane)] = max(before, lane._place() or 0.0), lane._error
            places, errors = zip(*self._lanes.values(), strict=True)
            done = sum(place >= 1 for place in places)
            known = [error for error in errors if error is not None]
            remarks = [f"{done} of {n} starts done"]
            remarks += [f"error {min(known):.4g} %"] if known else []
            self._show(sum(places) / n, remarks)

    def _place(self) -> float | None:
        """The done fraction of the job; None for a stage that is not in the plan."""
        part = sum(self._parts.values()) / max(1, self._n_starts)
        name = _full(self._section, self._stage)
        begin, weight = self._begins.get(name), self._weights.get(name, 0.0)
        return None if begin is None else (begin + min(1.0, part) * weight) / self._total

    def _draw(self) -> None:
        self._next = monotonic() + _SECONDS
        self._show(self._place(), self._remarks())

    def _show(self, place: float | None, remarks: Sequence[str]) -> None:
        if place is not None:
            self._bar.n = max(self._bar.n, min(int(_PARTS * place), _PARTS))  # never goes back
        self._bar.set_postfix_str(", ".join(remarks), refresh=False)
        self._bar.refresh()

    def _remarks(self) -> list[str]:
        done = sum(part >= 1 for part in self._parts.values())
        starts = [f"{done} of {self._n_starts} starts done"] if self._n_starts > 1 else []
        errors = [] if self._error is None else [f"error {self._error:.4g} %"]
        return starts + errors + self._throughput.remarks()

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Lane(ProgressBar):
    """The progress of one of several threads; the bar of the job shows their mean."""

    def __init__(self, whole: ProgressBar, n: int) -> None:
        self._whole, self._n_lanes = whole, n
        self._stream, self._bar = whole._stream, whole._bar
        self._weights, self._begins, self._total = whole._weights, whole._begins, whole._total
        self._stage, self._n_starts, self._section = "", 1, whole._section
        self._first, self._parts, self._error = {}, {}, None
        self._throughput, self._next = Throughput(), 0.0

    def _draw(self) -> None:
        self._next = monotonic() + _SECONDS
        self._whole.follow(self, self._n_lanes)


class Throughput:
    """How fast data that are streamed are read, over the last seconds.

    Data that count the bytes they have read, ``bytes_read``, and how often all of them were,
    ``passes``, are streamed; of others there is nothing to say.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()  # times, and bytes read until then
        self._passes: int | None = None

    def note(self, data: Any) -> None:
        """Note the bytes read so far."""
        read = getattr(data, "bytes_read", None)
        if read is None:
            return
        self._passes = getattr(data, "passes", None)
        now = monotonic()
        if self._seen and read < self._seen[-1][1]:  # another fit
            self._seen.clear()
        self._seen.append((now, read))
        while len(self._seen) > 2 and now - self._seen[1][0] > _WINDOW:
            self._seen.popleft()

    def remarks(self) -> list[str]:
        """Passes, and gigabytes per second; empty if no data are streamed."""
        if not self._seen:
            return []
        passes = [f"pass {self._passes}"] if self._passes else []
        (begin, before), (end, after) = self._seen[0], self._seen[-1]
        if after == before or end <= begin:
            return passes
        return [*passes, f"{(after - before) / (end - begin) / 1e9:.2f} GB/s"]


def _data_of(progress: Iteration) -> Any:
    """The data matrix of a fit; None if the progress is not that of a fit."""
    return getattr(getattr(progress, "_point", None), "data", None)


def _way(first: float, step: float, tol: float) -> float:
    """How far a step has come from the first one down to the tolerance, by logarithms."""
    if step <= tol:
        return 1.0
    if not 0 < tol < first:
        return 0.0
    return max(0.0, log(first / step) / log(first / tol))


def is_live(stream: TextIO) -> bool:
    """True if output can be overwritten: a terminal, or a notebook."""
    return stream.isatty() or "IPKernelApp" in getattr(_ipython(), "config", {})


def _ipython() -> Any:
    """The session of IPython, if this is one."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()


def _tqdm(stream: TextIO) -> Any:
    from tqdm.auto import tqdm  # the bar of a notebook there, of a terminal elsewhere

    return tqdm(
        total=_PARTS, file=stream, leave=False, bar_format=_FORMAT, dynamic_ncols=True
    )  # fmt: skip
