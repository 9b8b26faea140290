"""One bar for a whole job, in terminals and notebooks, by tqdm.

A job has stages with weights. Within a stage that iterates, the bar follows the step of every start
on its way down to the tolerance, on a logarithmic scale: half way is where the logarithm is.
"""

import sys
from collections import deque
from collections.abc import Mapping
from math import log
from time import monotonic
from typing import Any, Protocol, TextIO

_SECONDS = 0.1  # from one drawing to the next
_WINDOW = 5.0  # seconds over which throughput is measured
_PARTS = 1000  # of the bar
_WORDS = {
    "start": "start",
    "initial": "first fit",
    "recover": "adding components",
    "overcomplete": "fit with extra components",
    "merge": "merging",
    "final": "final fit",
}
_FORMAT = "{desc} {percentage:3.0f} % |{bar}| {elapsed}{postfix}"

# Stages with the share of the time that they usually take.
PLAIN = {"start": 2.0, "final": 98.0}
MERGED = {
    "start": 2.0, "initial": 18.0, "recover": 5.0, "overcomplete": 15.0, "merge": 1.0, "final": 59.0
}  # fmt: skip


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


def path_stages(n_max: int, n_min: int, stability: bool) -> dict[str, float]:
    """The stages of a path through all ranks: the highest, then down and up again."""
    down = [f"down to {rank}" for rank in range(n_max - 1, n_min - 1, -1)]
    up = [f"up to {rank}" for rank in range(n_min + 1, n_max + 1)]
    whole = {f"fit of {n_max}": 3.0} | dict.fromkeys(down, 1.0) | dict.fromkeys(up, 1.0)
    halves = ("half 1: ", "half 2: ") if stability else ()
    return whole | {f"{half}{name}": 0.5 * w for half in halves for name, w in whole.items()}


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

    def __call__(self, progress: Iteration) -> None:
        """Follow an iteration, as a callback."""
        self.note(progress)

    def section(self, name: str) -> None:
        """Begin a section of the job: the stages that follow are its own, see `section_stages`."""
        self._section, self._n_starts, self._error = name, 1, None

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
        """Note an iteration; ``error`` says whether the fitting error may be asked for."""
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
        """Say how much of a stage that does not iterate is done, from 0 to 1."""
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
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _draw(self) -> None:
        self._next = monotonic() + _SECONDS
        part = sum(self._parts.values()) / max(1, self._n_starts)
        name = _full(self._section, self._stage)
        begin, weight = self._begins.get(name), self._weights.get(name, 0.0)
        if begin is not None:
            place = int(_PARTS * (begin + min(1.0, part) * weight) / self._total)
            self._bar.n = max(self._bar.n, min(place, _PARTS))  # never goes back
        self._bar.set_postfix_str(", ".join(self._remarks()), refresh=False)
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


class Throughput:
    """How fast data that are streamed are read, over the last seconds.

    Data that count the bytes they have read, ``bytes_read``, and how often all of them were,
    ``passes``, are streamed; of others there is nothing to say.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()  # times, and bytes read until then
        self._passes: int | None = None

    def note(self, data: Any) -> None:
        """Note what was read until now."""
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
        """Passes and gigabytes a second; nothing where nothing is read."""
        if not self._seen:
            return []
        passes = [f"pass {self._passes}"] if self._passes else []
        (begin, before), (end, after) = self._seen[0], self._seen[-1]
        if after == before or end <= begin:
            return passes
        return [*passes, f"{(after - before) / (end - begin) / 1e9:.2f} GB/s"]


def _data_of(progress: Iteration) -> Any:
    """The data matrix of a fit, where the progress is that of one."""
    return getattr(getattr(progress, "_point", None), "data", None)


def _way(first: float, step: float, tol: float) -> float:
    """How far a step has come from the first one down to the tolerance, by logarithms."""
    if step <= tol:
        return 1.0
    if not 0 < tol < first:
        return 0.0
    return max(0.0, log(first / step) / log(first / tol))


def is_live(stream: TextIO) -> bool:
    """Whether what was drawn can be drawn over: a terminal, or a notebook."""
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
