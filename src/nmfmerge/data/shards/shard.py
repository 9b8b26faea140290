"""A shard: a run of chunks with their parts of all factors, and what it does with a message."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np

from nmfmerge.data.shards.chunks import Source, Store
from nmfmerge.data.shards.part import Block, Part, Scratch
from nmfmerge.data.shards.questions import Question
from nmfmerge.data.shards.recipes import Recipe
from nmfmerge.data.shards.spans import Span
from nmfmerge.kernels import alone


@dataclass(frozen=True, eq=False)
class Message:
    """What goes down to a shard, for one pass."""

    recipes: Mapping[int, Recipe] = field(default_factory=dict)  # of parts that may be missing
    questions: Sequence[Question] = ()
    keep: tuple[int, ...] = ()  # parts to keep for later
    drop: tuple[int, ...] = ()  # parts that nobody needs any more
    exponent: int = 0  # X / 4ᵏ is factorized
    spans: Sequence[Span] | None = None  # of the shard, once they are known

    def for_shard(self, spans: Sequence[Span], tell: bool) -> "Message":
        """What a shard of these spans needs of it; ``tell`` it which they are."""
        first, last = spans[0].first, spans[-1].first + spans[-1].n_rows
        own = {number: recipe.for_rows(first, last) for number, recipe in self.recipes.items()}
        return replace(self, recipes=own, spans=spans if tell else None)


@dataclass(frozen=True, eq=False)
class Reply:
    """What comes up from a shard, or from several."""

    answers: list[Any]
    n_bytes: int  # of X gone through
    n_reads: int  # chunks read

    @staticmethod
    def combined(questions: Sequence[Question], replies: "Sequence[Reply]") -> "Reply":
        """The replies of several shards, in their order, as one."""
        answers = replies[0].answers
        for reply in replies[1:]:
            answers = [
                question.add(total, more)
                for question, total, more in zip(questions, answers, reply.answers, strict=True)
            ]
        return Reply(
            answers,
            sum(reply.n_bytes for reply in replies),
            sum(reply.n_reads for reply in replies),
        )


class Stopped(Exception):
    """A pass was given up, for nobody waits for its answers any more."""


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

    def deal_with(self, message: Message, step: int = 0) -> Reply:
        """One pass over X; steps have numbers that grow."""
        with self._lock, alone():
            return self._pass(message, step)

    def stop(self, step: int) -> None:
        """Give up this step, and those before it, at the next block."""
        self._stopped = max(step, self._stopped)

    def _pass(self, message: Message, step: int) -> Reply:
        store = self._store
        if message.spans is not None:
            self.place(message.spans)
        store.set_exponent(message.exponent)
        for number in message.drop:
            for block in self._blocks:
                block.drop(number, self._scratch)
        before = store.n_bytes, store.reader.n_reads
        answers: list[Any] = [None] * len(message.questions)
        with closing(self._parts(message)) as parts:
            for part in parts:
                if step <= self._stopped:
                    raise Stopped
                for i, question in enumerate(message.questions):
                    more = question.of(part)
                    if answers[i] is None:
                        answers[i] = more.copy()
                    else:
                        answers[i] = question.add(answers[i], more)
                part.keep(message.keep)
                del part  # and its chunk, before the next is read
        return Reply(answers, store.n_bytes - before[0], store.reader.n_reads - before[1])

    def _parts(self, message: Message) -> Generator[Part, None, None]:
        """Each block in turn, with cross products for all that is to be made of it."""
        wanted = (*message.keep, *(n for question in message.questions for n in question.parts))
        reads = any(question.reads for question in message.questions)
        crossing = {
            number for number, recipe in message.recipes.items() if recipe.short is not None
        }
        stacked: dict[tuple[int, ...], np.ndarray] = {}
        wants: list[list[int]] = []
        for block in self._blocks:
            missing = Part(block, message.recipes, self._scratch, _not_read).missing(wanted)
            wants.append([number for number in missing if number in crossing])
        using = [i for i, multiplied in enumerate(wants) if reads or multiplied]
        with closing(self._store.passing(using)) as matrices:
            for block, multiplied in zip(self._blocks, wants, strict=True):
                read = next(matrices)[1] if reads or multiplied else _not_read
                part = Part(block, message.recipes, self._scratch, read)
                if multiplied:
                    key = tuple(multiplied)
                    if key not in stacked:
                        shorts: list[Any] = [message.recipes[number].short for number in key]
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
