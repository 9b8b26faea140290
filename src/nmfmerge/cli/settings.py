"""The options that set the method, made from `nmfmerge.settings`.

An option is stored under the name of its argument. The settings also have the text of its default.
"""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from nmfmerge import settings
from nmfmerge.arguments.values import LongWord, Value, Word
from nmfmerge.settings import REQUIRED, Setting

AUTO = "auto"  # choose the number of components from the data
_LEFT_OPEN = ("n_init", "beta_loss")  # None where the user says nothing


def _rank(text: str) -> int | str:
    """A number of components, or "auto"."""
    if text == AUTO or text.isdecimal():
        return AUTO if text == AUTO else int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor {AUTO}")


def options_of(function: str) -> dict[str, Setting]:
    """The settings of a function that have an option."""
    return {name: setting for name, setting in settings.of(function).items() if setting.flags}


def add_settings(
    parser: argparse.ArgumentParser, function: str, names: Iterable[str] | None = None
) -> None:
    """Add the options of a function, or those of these names."""
    options = options_of(function)
    for name in options if names is None else names:
        setting, default = options[name], options[name].of[function]
        words = _words(setting.takes)
        rank = name == "n_components"  # a fit whose number of components is missing says more
        parser.add_argument(
            *setting.flags,
            dest=name,
            type=_rank if rank else setting.takes.kind,
            default=None if default is REQUIRED or name in _LEFT_OPEN else default,
            required=default is REQUIRED and not rank,
            choices=words,
            metavar=f"N|{AUTO}" if rank else None if words else setting.takes.metavar,
            help=_help(setting, default),
        )


def _words(takes: Value) -> list[str] | None:
    """The words that an option may have."""
    if isinstance(takes, LongWord):
        return [*takes.words, *(short for short, _ in takes.short)]
    return list(takes.words) if isinstance(takes, Word) else None


def _help(setting: Setting, default: Any) -> str:
    if default is REQUIRED:
        return setting.doc
    words = (setting.default_doc or "%(default)s").replace("%(default)s", str(default))
    return f"{setting.doc} (default: {words})"


def chosen_settings(given: argparse.Namespace, function: str) -> dict[str, Any]:
    """The settings as arguments of the function."""
    chosen = {name: getattr(given, name) for name in options_of(function)}
    if "beta_loss" in chosen:
        chosen["beta_loss"] = loss_of(given)
    if "n_init" in chosen and chosen["n_init"] is None:  # which depends on the method
        plain = chosen["n_extra"] == 0
        chosen["n_init"] = settings.defaults("nmf" if plain else function)["n_init"]
    return chosen


def loss_of(given: argparse.Namespace) -> str:
    """The chosen loss, or the default."""
    loss = given.beta_loss or settings.defaults("nmf_merge")["beta_loss"]
    return str(settings.SETTINGS["beta_loss"].check(loss))


def setting_words(chosen: Mapping[str, Any], function: str) -> list[str]:
    """Settings as they are typed, without those that have their default."""
    words = []
    for name, setting in options_of(function).items():
        if chosen[name] != setting.of[function]:
            words += [setting.flags[0], str(chosen[name])]
    return words
