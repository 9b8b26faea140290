"""Write the report and the figures of a fit again."""

import argparse
from dataclasses import replace
from pathlib import Path

from nmfmerge.cli.common import OK, add_data, pages, print_outcome
from nmfmerge.storage.files import replacing
from nmfmerge.storage.folder import read
from nmfmerge.storage.manifest import add_files
from nmfmerge.storage.provenance import data_again


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `report`."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder written by `fit`")
    add_data(parser)


def run(given: argparse.Namespace) -> int:
    """Draw from the folder, and from the data if their file still exists."""
    fit = read(given.folder)
    data = data_again(fit, given.data)
    fit = replace(fit, data=data or fit.data)
    made = pages(fit)
    add_files(given.folder, made)
    for name, content in made.items():
        file = given.folder / name
        file.parent.mkdir(exist_ok=True)
        with replacing(file) as opened:
            opened.write(content.encode() if isinstance(content, str) else content)
    page = given.folder / "report.html"
    streamed = "the data were streamed" if fit.about.streamed is not None else None
    why = streamed or "the data file is not there unchanged"
    missing = "" if data else f" (without the residual: {why})"
    print_outcome(
        given, {"report": str(page), "with_data": data is not None}, f"written to {page}{missing}"
    )
    return OK
