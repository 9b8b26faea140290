"""Say what a data file holds, and what about it would trouble a fit."""

import argparse
from pathlib import Path
from typing import Any

from nmfmerge.cli.common import OK, add_reading, reading_options, tell
from nmfmerge.cli.messages import in_options
from nmfmerge.io import describe, read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `info`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="data file, or folder of images")
    add_reading(parser)


def run(given: argparse.Namespace) -> int:
    """Read and describe."""
    facts = describe(read(given.file, **reading_options(given)))
    facts["problems"] = [in_options(problem, given) for problem in facts["problems"]]
    tell(given, facts, _text(given.file, facts))
    return OK


def _text(file: Path, facts: dict[str, Any]) -> str:
    lines = [str(file)]
    for name, value in facts.items():
        if name != "problems":
            shown = f"{value:.6g}" if isinstance(value, float) else value
            lines.append(f"  {name.replace('_', ' '):<20} {shown}")
    lines += [f"careful: {problem}" for problem in facts["problems"]]
    return "\n".join(lines)
