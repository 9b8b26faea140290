"""Errors and warnings that name arguments, for Python and for the command line.

A message is a template. What stands in braces is a fact or, if there is none of that name, an
argument, which each interface writes as its users type it: ``tol`` in Python, ``--tol`` in a shell.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

import numpy as np

_MOST = 60  # characters of a value in a message
_MOST_TEXT = 300  # of a text, which may be the name of a file
ABSENT: Any = object()  # no value


def short(value: Any) -> str:
    """A value as Python writes it, cut where it is long."""
    text, most = repr(value), _MOST_TEXT if isinstance(value, str) else _MOST
    return text if len(text) <= most else text[: most - 3] + "..."


@dataclass(frozen=True)
class Given:
    """An argument with the value that it was given."""

    argument: str
    value: Any


# How an interface writes an argument: with its value, or alone if there is no second argument.
Style = Callable[..., str]


def python_style(argument: str, value: Any = ABSENT) -> str:
    """As in a call: ``tol=-1``."""
    return argument if value is ABSENT else f"{argument}={short(value)}"


def option_style(flags: Mapping[str, str]) -> Style:
    """As options are typed: ``--tol -1``; an argument that has no flag is written as in Python."""

    def style(argument: str, value: Any = ABSENT) -> str:
        flag = flags.get(argument)
        if flag is None:
            return python_style(argument, value)
        if value is ABSENT:
            return flag
        if isinstance(value, bool | np.bool_):
            return flag if value else flag.replace("--", "--no-", 1)
        return f"{flag} {short(value)}"

    return style


class Message(str):
    """A text in which arguments are named; as a string, it is the text for Python.

    Parameters
    ----------
    template : str
        The text; ``{name}`` stands for a fact or an argument. An argument may have an equals sign,
        ``{name=}``, which is shown in Python alone.
    **facts
        What is put in: values, a `Given`, other messages, and errors.
    """

    template: str
    facts: dict[str, Any]

    def __new__(cls, template: str, /, **facts: Any) -> "Message":
        """Write the text for Python."""
        message = super().__new__(cls, _written(template, facts, python_style))
        message.template, message.facts = template, facts
        return message

    def written(self, style: Style) -> str:
        """The text for another interface."""
        return _written(self.template, self.facts, style)

    def __reduce__(self) -> tuple[Any, ...]:
        return _message, (self.template, self.facts)


def _message(template: str, facts: dict[str, Any]) -> Message:
    return Message(template, **facts)


def _written(template: str, facts: Mapping[str, Any], style: Style) -> str:
    def of(name: str) -> str:
        fact = facts.get(name, ABSENT)
        if fact is ABSENT:
            argument = name.removesuffix("=")
            return name if style(argument) == argument else style(argument)
        if isinstance(fact, Given):
            return style(fact.argument, fact.value)
        return written(fact, style)

    return "".join(
        text if name is None else text + of(name)
        for text, name, _, _ in Formatter().parse(template)
    )


def written(said: Any, style: Style) -> str:
    """The text of an error, a warning or a message, with its arguments in this style."""
    if isinstance(said, BaseException) and len(said.args) == 1:
        said = said.args[0] if isinstance(said.args[0], Message) else said
    return said.written(style) if isinstance(said, Message) else str(said)


class _AboutArgument(Exception):
    """The fields of an error about one argument, and their text.

    Parameters
    ----------
    argument : str
        Name of the argument in the signature.
    problem : str
        What is wrong with it, such as "is out of range"; ``{given}`` says where the argument is
        named if that is not at the beginning.
    value : optional
        The value that was given, where it is short enough to show.
    expected, fix : str
        What a value must be, and what to do.
    **facts
        What stands in braces in these texts.

    Attributes
    ----------
    argument, value, problem, expected, fix
        As given; ``value`` is None where none was.
    """

    def __init__(
        self,
        argument: str,
        problem: str,
        *,
        value: Any = ABSENT,
        expected: str = "",
        fix: str = "",
        **facts: Any,
    ) -> None:
        self.argument, self.problem, self.expected, self.fix = argument, problem, expected, fix
        self.value = None if value is ABSENT else value
        template = problem if "{given}" in problem else "{given} " + problem
        template += f"; expected {expected}" * bool(expected) + f": {fix}" * bool(fix)
        super().__init__(Message(template, given=Given(argument, value), **facts))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


class ArgumentError(_AboutArgument, ValueError):
    """An argument has a value that it cannot have."""


class ArgumentTypeError(_AboutArgument, TypeError):
    """An argument has a value of the wrong type."""


def _restored(kind: type[_AboutArgument], args: tuple[Any, ...], fields: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


def wrong_type(argument: str, value: Any, expected: str, fix: str = "") -> ArgumentTypeError:
    """The error that says what a value is, and what it should be."""
    problem = f"is a {type(value).__name__}"
    return ArgumentTypeError(argument, problem, value=value, expected=expected, fix=fix)
