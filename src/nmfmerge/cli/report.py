"""Write the report and the figures of a fit again."""

import argparse
import os
from pathlib import Path

from nmfmerge.cli.common import OK, data_again, pages, tell
from nmfmerge.folder import Fit, read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `report` takes."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder that `fit` has written")
    parser.add_argument("--data", type=Path, metavar="FILE", help="the data file, if it has moved")


def run(given: argparse.Namespace) -> int:
    """Draw from the folder, and from the data where they are still there."""
    fit = read(given.folder)
    data = data_again(fit, given.data)
    fit = Fit(fit.result, data or fit.data, fit.about)
    for name, content in pages(fit).items():
        file = given.folder / name
        file.parent.mkdir(exist_ok=True)
        scratch = file.with_name(file.name + ".new")
        scratch.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(scratch, file)
    page = given.folder / "report.html"
    missing = "" if data else " (without the residual: the data file is not there unchanged)"
    tell(given, {"report": str(page), "with_data": data is not None}, f"written to {page}{missing}")
    return OK
