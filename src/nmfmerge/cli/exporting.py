"""The options for additional output: sound, and the format of tables."""

import argparse

from nmfmerge.datasets.base import Dataset
from nmfmerge.export.registry import check_requested
from nmfmerge.storage.tables import WRITERS, check_tables


def add_tables(parser: argparse.ArgumentParser) -> None:
    """Add the option for the format of tables."""
    parser.add_argument(
        "--tables", choices=list(WRITERS), default="csv",
        help="format of the tables; xlsx is one workbook with a sheet for each (default: "
        "%(default)s)",
    )  # fmt: skip


def add_audio(parser: argparse.ArgumentParser) -> None:
    """Add the option for sound."""
    parser.add_argument(
        "--audio", action="store_true",
        help="write the sound of each component of a recording, audio/component-01.wav and so on",
    )  # fmt: skip


def requested(given: argparse.Namespace) -> tuple[str, ...]:
    """Names of the exports that are written on request only."""
    return ("audio",) * given.audio


def check_exports(
    given: argparse.Namespace, data: Dataset, n_components: int, names: tuple[str, ...] = ()
) -> None:
    """Check, before a fit, that the requested files can be written."""
    check_requested(data, names, flag="--")
    check_tables(given.tables, n_components + 1)


def export_words(given: argparse.Namespace) -> list[str]:
    """The options, as they are typed."""
    words = ["--audio"] * getattr(given, "audio", False)
    return [*words, "--tables", given.tables] if given.tables != "csv" else words
