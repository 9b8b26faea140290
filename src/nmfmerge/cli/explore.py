"""Open a page in the browser to look at all ranks and to adjust a solution."""

import argparse
import sys
import webbrowser
from pathlib import Path

from nmfmerge.cli.common import OK, add_reading, print_outcome, reading_options
from nmfmerge.cli.settings import add_settings
from nmfmerge.cli.weights import add_weights, check_weights
from nmfmerge.explore import explore
from nmfmerge.io.errors import library


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `explore`."""
    parser.add_argument(
        "path", type=Path, metavar="FILE",
        help="data file, folder of images, or folder written by `fit` or the page",
    )  # fmt: skip
    parser.add_argument(
        "--max", type=int, default=20, dest="n_max", metavar="N",
        help="highest rank of the first path (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, default=0, metavar="N",
        help="port of the page on this machine (default: any free one)",
    )  # fmt: skip
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address without opening a browser"
    )
    add_weights(parser)
    add_reading(parser)
    add_settings(parser, "nmf", ["missing", "n_jobs"])


def run(given: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    library("bokeh", "the page", "Bokeh", "explore", doing="opening")
    check_weights(given)
    explorer = explore(
        given.path, weights=given.weights, missing=given.missing, n_max=given.n_max,
        port=given.port, **reading_options(given),
    )  # fmt: skip
    try:
        print_outcome(
            given, {"address": explorer.address},
            f"{explorer.address}\nOpen this address on this machine. Ctrl-C ends the explorer.",
        )  # fmt: skip
        sys.stdout.flush()  # a script may be waiting for this line
        if not given.no_browser:
            webbrowser.open(explorer.address)
        explorer.wait()
    except KeyboardInterrupt:
        pass
    finally:
        explorer.stop()
    return OK
