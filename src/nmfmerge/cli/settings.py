"""The options of `fit` and `path` that set the method: one for each argument of its function.

An option is stored under the name of its argument and has its default, so neither is listed again.
"""

import argparse
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from nmfmerge.init import INITS
from nmfmerge.pipeline import nmf, nmf_merge
from nmfmerge.ranks import rank_path
from nmfmerge.solvers import SOLVERS


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    return {name: parameter.default for name, parameter in parameters.items()}


DEFAULTS = _defaults(nmf_merge)
PATH_DEFAULTS = _defaults(rank_path)
PLAIN_STARTS = _defaults(nmf)["n_init"]
PATH_SETTINGS = ("solver", "tol", "max_iter", "max_time", "random_state")
# These may change when a run goes on; all else decides the result.
LIMITS = ("max_iter", "max_time", "device")

AUTO = "auto"  # the number of components that the data speak for


def _rank(text: str) -> int | str:
    """A number of components, or the word that leaves it to the data."""
    if text == AUTO or text.isdecimal():
        return AUTO if text == AUTO else int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor {AUTO}")


METAVARS: dict[Any, str] = {int: "N", float: "NUMBER", str: "NAME", _rank: f"N|{AUTO}"}


@dataclass(frozen=True)
class _Setting:
    """An option: its names, how its value is read, and its line in the help."""

    flags: tuple[str, ...]
    help: str
    kind: Callable[[str], Any] = str
    choices: Iterable[str] | None = None


_SETTINGS = {
    "n_components": _Setting(
        ("-r", "--rank"),
        f"number of components, or {AUTO}: fit all ranks first and take the one that the data "
        "speak for",
        _rank,
    ),
    "n_extra": _Setting(
        ("-k", "--extra"),
        "number of extra components that are added, then merged (default: a fifth of the rank; "
        "0 is plain NMF)",
        int,
    ),
    "solver": _Setting(("--solver",), "algorithm (default: %(default)s)", choices=SOLVERS),
    "init": _Setting(
        ("--init",), "how the fit, or its first start, begins (default: %(default)s)", choices=INITS
    ),
    "n_init": _Setting(
        ("--starts",),
        "number of starts, of which the best is kept: --init and random ones; 1 is the method of "
        f"the paper (default: {DEFAULTS['n_init']}; {PLAIN_STARTS} for plain NMF, -k 0)",
        int,
    ),
    "tol": _Setting(
        ("--tol",),
        "stop when no component moves by more than this, relatively (default: %(default)s)",
        float,
    ),
    "tol_intermediate": _Setting(
        ("--tol-intermediate",),
        "the same for the stages before the last (default: the square root of --tol)",
        float,
    ),
    "max_iter": _Setting(
        ("--max-iter",), "largest number of iterations of a stage (default: %(default)s)", int
    ),
    "max_time": _Setting(
        ("--max-time",), "stop after this many seconds (default: no limit)", float
    ),
    "random_state": _Setting(
        ("--seed",), "seed of the random starts, a whole number (default: a fixed seed)", int
    ),
    "device": _Setting(("--device",), "where to compute, such as cuda (default: the CPU)"),
}
FLAGS = {name: setting.flags[-1] for name, setting in _SETTINGS.items()}


def add_settings(
    parser: argparse.ArgumentParser,
    names: Iterable[str] = tuple(_SETTINGS),
    defaults: dict[str, Any] = DEFAULTS,
) -> None:
    """Add the options of these names."""
    for name in names:
        setting = _SETTINGS[name]
        required = defaults[name] is inspect.Parameter.empty
        parser.add_argument(
            *setting.flags,
            dest=name,
            type=setting.kind,
            default=None if required or name == "n_init" else defaults[name],
            choices=None if setting.choices is None else list(setting.choices),
            metavar=None if setting.choices else METAVARS[setting.kind],
            help=setting.help,
        )


def settle_starts(given: argparse.Namespace) -> None:
    """Put the number of starts in, where none was given: it depends on the method."""
    if given.n_init is None:
        given.n_init = PLAIN_STARTS if given.n_extra == 0 else DEFAULTS["n_init"]


def chosen_settings(
    given: argparse.Namespace, names: Iterable[str] = tuple(_SETTINGS)
) -> dict[str, Any]:
    """The settings as arguments of the function."""
    return {name: getattr(given, name) for name in names}


def setting_words(
    given: argparse.Namespace,
    names: Iterable[str] = tuple(_SETTINGS),
    defaults: dict[str, Any] = DEFAULTS,
) -> list[str]:
    """The settings as they are typed, without those that have their default."""
    words = []
    for name, value in chosen_settings(given, names).items():
        if value != defaults[name]:
            words += [_SETTINGS[name].flags[0], str(value)]
    return words
