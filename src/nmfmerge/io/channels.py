"""Sound and pictures of several channels: the one that the user chose, or one made of all."""

import warnings
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ArgumentError, Given, Message
from nmfmerge.io.errors import FormatError, ReadingWarning

_LUMA = np.array([0.299, 0.587, 0.114])  # ITU-R 601-2, as Pillow's
_COLOURS = {"red": 1, "green": 2, "blue": 3}
_SILENT = 1e-4  # power of the average over that of the channels, below which nothing is left
_WEAK = 0.25  # the same, below which there is a warning; two independent channels keep 0.5

Channel = int | str | None


def check_channel(value: Any) -> Channel:
    """The number of a channel, or a word for it, as `read` takes it."""
    text = str(value).strip().lower()
    if text in _COLOURS or text in ("mean", "grey"):
        return text
    if isinstance(value, Integral) or (isinstance(value, str) and text.isdecimal()):
        number = int(value)
        if number >= 1:
            return number
    raise ArgumentError(
        "channel",
        "is not a channel",
        value=value,
        fix="write a number from 1, 'mean' for sound, or 'red', 'green', 'blue' or 'grey' for "
        "images",
    )


def one_sound(path: Path, sound: np.ndarray, channel: Any = None) -> np.ndarray:
    """One signal of a recording (samples, channels): a channel, or the average of all."""
    n = sound.shape[1]
    chosen = check_channel("mean" if channel is None else channel)
    if isinstance(chosen, int) and chosen <= n:
        return sound[:, chosen - 1]
    if chosen != "mean":
        raise FormatError(
            Message(
                "{path} has {n} channel(s) of sound: choose {channel=} from 1 to {n}",
                path=path,
                n=n,
            )
        )
    mean = sound.mean(axis=1)
    if channel is None and n > 1:
        _check_cancelling(path, _power(mean), _power(sound))
    return mean


def _check_cancelling(path: Path, kept: float, power: float) -> None:
    """Channels of opposite sign vanish in their average."""
    if kept < _SILENT * power:
        raise FormatError(
            Message(
                "{path} has channels that cancel out when they are averaged: choose one with "
                "{first}, or confirm the average with {mean}",
                path=path,
                first=Given("channel", 1),
                mean=Given("channel", "mean"),
            )
        )
    if kept < _WEAK * power:
        warnings.warn(
            ReadingWarning(
                Message(
                    "{path} has channels that partly cancel out: {left} of their power is left in "
                    "the average; choose one with {first}, or 'mean' for no warning",
                    path=path,
                    left=f"{kept / power:.0%}",
                    first=Given("channel", 1),
                )
            ),
            stacklevel=2,
        )


def _power(sound: np.ndarray) -> float:
    return float(np.square(sound).mean())


def one_colour(path: Path, colours: np.ndarray, channel: Any = None) -> np.ndarray:
    """Pictures (..., colours) with one value a pixel: a colour, or grey, with a warning."""
    n = colours.shape[-1]
    chosen = check_channel("grey" if channel is None else channel)
    number = _COLOURS.get(chosen, chosen) if isinstance(chosen, str) else chosen
    if isinstance(number, int) and number <= n:
        return colours[..., number - 1]
    if number != "grey" or n not in (3, 4):
        raise FormatError(
            Message(
                "{path} has {n} values a pixel: choose {channel=} from 1 to {n}", path=path, n=n
            )
        )
    if channel is None:
        warn_of_grey(path)
    return colours[..., :3] @ _LUMA


def warn_of_grey(path: Path) -> None:
    """Warn that colours are lost."""
    warnings.warn(
        ReadingWarning(
            Message(
                "{path} has colours, which became one grey value a pixel: choose one with {red}, "
                "'green' or 'blue', or 'grey' for no warning",
                path=path,
                red=Given("channel", "red"),
            )
        ),
        stacklevel=2,
    )
