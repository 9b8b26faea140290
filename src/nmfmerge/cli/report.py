"""Write the report and the figures of a fit again."""

import argparse
from dataclasses import replace
from pathlib import Path

from nmfmerge.cli.common import OK, add_data, pages, tell
from nmfmerge.files import replacing
from nmfmerge.folder import read
from nmfmerge.origin import data_again


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `report`."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder that `fit` has written")
    add_data(parser)


def run(given: argparse.Namespace) -> int:
    """Draw from the folder, and from the data where they are still there."""
    fit = read(given.folder)
    data = data_again(fit, given.data)
    fit = replace(fit, data=data or fit.data)
    for name, content in pages(fit).items():
        file = given.folder / name
        file.parent.mkdir(exist_ok=True)
        with replacing(file) as opened:
            opened.write(content.encode() if isinstance(content, str) else content)
    page = given.folder / "report.html"
    streamed = "the data were streamed" if "streamed" in fit.about else None
    why = streamed or "the data file is not there unchanged"
    missing = "" if data else f" (without the residual: {why})"
    tell(given, {"report": str(page), "with_data": data is not None}, f"written to {page}{missing}")
    return OK
