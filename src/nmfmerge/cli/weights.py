"""The option for weights of the entries, of the commands that fit."""

import argparse
from pathlib import Path
from typing import Any

from nmfmerge.cli.common import reading_options
from nmfmerge.datasets.base import Dataset
from nmfmerge.io.weights import check_weights_options, read_weights


def add_weights(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="file with a weight for each entry of the data, or for each row or column; 0 is "
        "missing",
    )


def check_weights(given: argparse.Namespace) -> None:
    """Refuse the options that weights do not go with, before anything is read."""
    if given.weights is None:
        return
    check_weights_options(given.weights, reading_options(given))
    for name in ("memory", "scheduler", "device"):
        if (value := getattr(given, name, None)) is not None:
            raise ValueError(
                f"--{name} {value} cannot be used with --weights {given.weights}: leave out one "
                "of them"
            )


def weights_of(given: argparse.Namespace, data: Dataset) -> Any:
    """The weights of the data, if their file was given."""
    if given.weights is None:
        return None
    return read_weights(given.weights, data, given.file, reading_options(given))


def weights_words(given: argparse.Namespace) -> list[str]:
    """The option as words of a command."""
    return [] if given.weights is None else ["--weights", str(given.weights)]
