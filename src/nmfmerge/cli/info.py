"""Describe a data file, and what may cause problems in a fit."""

import argparse
import shlex
from pathlib import Path
from typing import Any

from nmfmerge.cli.common import OK, add_reading, print_outcome, reading_options
from nmfmerge.cli.messages import LOSS_ADVICE, in_options
from nmfmerge.cli.streaming import suggested
from nmfmerge.io import describe, read
from nmfmerge.io.errors import TooLarge
from nmfmerge.io.inspect import names_in_words
from nmfmerge.io.lazy import can_stream, on_disk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `info`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="data file, or folder of images")
    add_reading(parser)


def run(given: argparse.Namespace) -> int:
    """Read and describe a file; describe one that is too large without reading it."""
    options = reading_options(given)
    try:
        facts = describe(read(given.file, **options))
    except TooLarge as error:
        if not can_stream(given.file, **options):
            raise
        facts = _unread(given.file, options, str(error))
    facts["problems"] = [in_options(problem) for problem in facts["problems"]]
    advice = f"\n{LOSS_ADVICE}" if facts.get("counts") else ""
    print_outcome(given, facts, _text(given.file, facts) + advice)
    return OK


def _unread(file: Path, options: dict[str, Any], why: str) -> dict[str, Any]:
    """A description of a file that can be streamed, without reading its values."""
    options = {name: value for name, value in options.items() if name != "max_memory"}
    found = on_disk(file, **options)
    stored = found.stored
    sides = [found.rows.label if found.rows else "row"]
    sides.append(found.columns.label if found.columns else "column")
    turn = slice(None, None, -1 if options.get("transpose") else 1)
    fit = shlex.join(["nmfmerge", "fit", str(file), "-r", "20"])
    return {
        "name": file.name,
        "shape": list(stored.shape)[turn],
        "kind": "sparse" if stored.sparse else "dense",
        "dtype": str(stored.dtype),
        "stored": stored.n_stored,
        "chunks": None if stored.sparse else list(stored.chunks)[turn],
        "megabytes": stored.nbytes / 1e6,
        "rows": sides[turn][0],
        "columns": sides[turn][1],
        **names_in_words(*[found.rows, found.columns][turn]),
        "can_be_streamed": True,
        "problems": [
            f"{why.split(':')[0]}: stream it with {fit} {suggested()}, or on a cluster with "
            "--scheduler."
        ],
    }


def _text(file: Path, facts: dict[str, Any]) -> str:
    lines = [str(file)]
    for name, value in facts.items():
        if name != "problems" and value is not None:
            shown = f"{value:.6g}" if isinstance(value, float) else value
            shown = "yes" if value is True else "no" if value is False else shown
            lines.append(f"  {name.replace('_', ' '):<20} {shown}")
    lines += [f"careful: {problem}" for problem in facts["problems"]]
    return "\n".join(lines)
