"""Python code made of values that a user or a file gave; all of them are quoted."""

from keyword import iskeyword
from typing import Any


def call(function: str, /, *arguments: Any, **named: Any) -> str:
    """A call as code. A name that no argument can have is passed in a dictionary, as a string."""
    words = [repr(argument) for argument in arguments]
    for name, value in named.items():
        plain = name.isidentifier() and not iskeyword(name)
        words.append(f"{name}={value!r}" if plain else f"**{ {name: value}!r}")
    return f"{function}({', '.join(words)})"
