"""A shard: a run of chunks with their parts of all factors, and what it does with a message."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np

from nmfmerge.backends.numba import alone
from nmfmerge.matrices.dask.chunk_reader import Source, Store
from nmfmerge.matrices.dask.expressions import FactorExpression
from nmfmerge.matrices.dask.part import Block, Part, Scratch
from nmfmerge.matrices.dask.reductions import Reduction
from nmfmerge.matrices.dask.spans import Span


@dataclass(frozen=True, eq=False)
class PassRequest:
    """The request to a shard for one pass."""

    expressions: Mapping[int, FactorExpression] = field(
        default_factory=dict
    )  # of parts that may be missing
    reductions: Sequence[Reduction] = ()
    keep: tuple[int, ...] = ()  # parts to keep for later
    drop: tuple[int, ...] = ()  # parts that are no longer needed
    exponent: int = 0  # X / 4ᵏ is factorized
    spans: Sequence[Span] | None = None  # of the shard, once they are known

    def for_shard(self, spans: Sequence[Span], tell: bool) -> "PassRequest":
        """The request for a shard of these spans; ``tell`` adds the spans."""
        first, last = spans[0].first, spans[-1].first + spans[-1].n_rows
        own = {
            number: expression.for_rows(first, last)
            for number, expression in self.expressions.items()
        }
        return replace(self, expressions=own, spans=spans if tell else None)


@dataclass(frozen=True, eq=False)
class Reply:
    """The answer of one shard, or of several."""

    answers: list[Any]
    n_bytes: int  # of X processed
    n_reads: int  # chunks read

    @staticmethod
    def combined(reductions: Sequence[Reduction], replies: "Sequence[Reply]") -> "Reply":
        """The replies of several shards, in their order, as one."""
        answers = replies[0].answers
        for reply in replies[1:]:
            answers = [
                reduction.add(total, more)
                for reduction, total, more in zip(reductions, answers, reply.answers, strict=True)
            ]
        return Reply(
            answers,
            sum(reply.n_bytes for reply in replies),
            sum(reply.n_reads for reply in replies),
        )


class Stopped(Exception):
    """A pass was cancelled because its answers are no longer needed."""


class Shard:
    """A run of chunks of X.

    Dealing with a message twice gives the same answers: parts that are there are not made again.
    """

    def __init__(self, source: Source, limit: int) -> None:
        self._store = Store(source.opened(), limit)
        self._blocks = [Block(span) for span in self._store.spans]
        self._scratch = Scratch(source.dtype)
        self._lock = Lock()
        self._stopped = -1  # the last step that was given up

    def deal_with(self, message: PassRequest, step: int = 0) -> Reply:
        """One pass over X; steps have numbers that grow."""
        with self._lock, alone():
            return self._pass(message, step)

    def stop(self, step: int) -> None:
        """Give up this step, and those before it, at the next block."""
        self._stopped = max(step, self._stopped)

    def _pass(self, message: PassRequest, step: int) -> Reply:
        store = self._store
        if message.spans is not None:
            self.place(message.spans)
        store.set_exponent(message.exponent)
        for number in message.drop:
            for block in self._blocks:
                block.drop(number, self._scratch)
        before = store.n_bytes, store.reader.n_reads
        answers: list[Any] = [None] * len(message.reductions)
        with closing(self._parts(message)) as parts:
            for part in parts:
                if step <= self._stopped:
                    raise Stopped
                for i, reduction in enumerate(message.reductions):
                    more = reduction.of(part)
                    if answers[i] is None:
                        answers[i] = more.copy()
                    else:
                        answers[i] = reduction.add(answers[i], more)
                part.keep(message.keep)
                del part  # and its chunk, before the next is read
        return Reply(answers, store.n_bytes - before[0], store.reader.n_reads - before[1])

    def _parts(self, message: PassRequest) -> Generator[Part, None, None]:
        """Each block in turn, with cross products for all that is to be made of it."""
        wanted = (*message.keep, *(n for reduction in message.reductions for n in reduction.parts))
        reads = any(reduction.reads for reduction in message.reductions)
        crossing = {
            number
            for number, expression in message.expressions.items()
            if expression.short is not None
        }
        stacked: dict[tuple[int, ...], np.ndarray] = {}
        wants: list[list[int]] = []
        using: dict[int, None] = {}
        for i, block in enumerate(self._blocks):
            missing = Part(block, message.expressions, self._scratch, _not_read).missing(wanted)
            wants.append([number for number in missing if number in crossing])
            if reads or wants[i] or any(message.expressions[number].reads for number in missing):
                using[i] = None
        with closing(self._store.passing(list(using))) as matrices:
            for i, (block, multiplied) in enumerate(zip(self._blocks, wants, strict=True)):
                read = next(matrices)[1] if i in using else _not_read
                part = Part(block, message.expressions, self._scratch, read)
                if multiplied:
                    key = tuple(multiplied)
                    if key not in stacked:
                        shorts: list[Any] = [message.expressions[number].short for number in key]
                        stacked[key] = (
                            np.concatenate(shorts) if len(shorts) > 1 else shorts[0].view()
                        )
                        stacked[key].flags.writeable = False  # it is the same for all blocks
                    part.multiply(multiplied, stacked[key])
                yield part
                del part, read

    def place(self, spans: Sequence[Span]) -> None:
        """Work on these spans of X from now on."""
        if spans != self._store.spans:
            self._blocks = [Block(span) for span in spans]
            self._store.lay_out(spans)


def _not_read() -> Any:
    raise AssertionError("X is not needed in this pass")
