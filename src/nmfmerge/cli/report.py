"""Write the report and the figures of a fit again."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmfmerge.cli.common import OK, add_data, pages, print_outcome
from nmfmerge.datasets.base import Dataset
from nmfmerge.storage.files import replacing
from nmfmerge.storage.folder import Fit, FolderError, read
from nmfmerge.storage.manifest import add_files
from nmfmerge.storage.provenance import data_again, weights_again


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `report`."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder written by `fit`")
    add_data(parser)


def run(given: argparse.Namespace) -> int:
    """Draw from the folder, and from the data if their file still exists."""
    fit = read(given.folder)
    data, weights, why = _data_again(fit, given.data)
    made = pages(replace(fit, data=data or fit.data, weights=weights))
    add_files(given.folder, made)
    for name, content in made.items():
        file = given.folder / name
        file.parent.mkdir(exist_ok=True)
        with replacing(file) as opened:
            opened.write(content.encode() if isinstance(content, str) else content)
    page = given.folder / "report.html"
    missing = "" if data else f" (without the residual: {why})"
    print_outcome(
        given, {"report": str(page), "with_data": data is not None}, f"written to {page}{missing}"
    )
    return OK


def _data_again(fit: Fit, moved_to: Path | None) -> tuple[Dataset | None, Any, str]:
    """The data and the weights of a fit, if both are there; or why they are not."""
    data = data_again(fit, moved_to)
    if data is None:
        streamed = fit.about.streamed is not None
        return (
            None,
            None,
            ("the data were streamed" if streamed else "the data file is not there unchanged"),
        )
    try:
        return data, weights_again(fit, data, moved_to), ""
    except FolderError as error:
        return None, None, str(error)
