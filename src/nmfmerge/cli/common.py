"""Code shared by commands: options, reading data, pages and figures, printing."""

import argparse
import json
import shlex
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.api import nmf_merge
from nmfmerge.cli.messages import show
from nmfmerge.datasets.base import Dataset
from nmfmerge.io.errors import one_line
from nmfmerge.io.options import OPTIONS
from nmfmerge.io.sample import sample_digest
from nmfmerge.results.about import About
from nmfmerge.results.factorization import Factorization
from nmfmerge.solvers.progress import ProgressBar
from nmfmerge.storage.folder import Fit
from nmfmerge.storage.provenance import digest, now, versions, weights_record
from nmfmerge.storage.thinned import thinned

OK, NOT_CONVERGED = 0, 3
_METAVARS: dict[type, str] = {int: "N", float: "NUMBER", str: "NAME"}
_DRAWINGS = 24  # figures, each drawn and stored, and sections of a report, about


def add_output(parser: argparse.ArgumentParser, text: str, **default: Any) -> None:
    """Add the options for the folder that a command writes."""
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help=text, **default)
    parser.add_argument("--force", action="store_true", help="replace an existing fit")


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options of the formats."""
    group = parser.add_argument_group("reading the file")
    for name, option in OPTIONS.items():
        flag = "--" + name.replace("_", "-")
        if option.kind is bool:
            action = argparse.BooleanOptionalAction if name == "header" else "store_true"
            group.add_argument(flag, action=action, default=None, help=option.description)
        else:
            metavar = option.metavar or _METAVARS[option.kind]
            group.add_argument(
                flag, type=option.from_text, help=option.description, metavar=metavar
            )


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the option for the data of an existing fit."""
    parser.add_argument("--data", type=Path, metavar="FILE", help="the data file, if it has moved")


def reading_options(given: argparse.Namespace) -> dict[str, Any]:
    """The options of the formats that were given."""
    return {name: getattr(given, name) for name in OPTIONS if getattr(given, name) is not None}


def how_made(
    given: argparse.Namespace, options: list[str], settings: dict[str, Any], whole: bool = True
) -> About:
    """A record from which a fit of a file can be repeated; ``options`` as typed.

    The file is identified by a hash of the ``whole`` file, or of samples.
    """
    command = ["nmfmerge", given.command, str(given.file), *options, *reading_words(given)]
    about = About(
        title=given.file.name,
        file=str(given.file.resolve()),
        command=shlex.join(command),
        settings=settings,
        reading=reading_options(given),
        versions=versions(),
        date=now(),
        weights=weights_record(getattr(given, "weights", None)),
    )
    if whole:
        return about.updated(data_sha256=digest(given.file))
    return about.updated(data_sample_sha256=_digest_of_samples(given.file))


def _digest_of_samples(file: Path) -> str:
    if not file.exists():
        raise FileNotFoundError(f"{file} was not found: check its name and folder")
    return sample_digest(file)


def reading_words(given: argparse.Namespace) -> list[str]:
    """The options of the formats that were given, as they are typed."""
    words = []
    for name, value in reading_options(given).items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            words += [flag, str(value)]
    return words


def warm_up(
    solver: str, data: Dataset, beta_loss: str = "frobenius", weighted: bool = False
) -> None:
    """Compile the kernels, so that reported times do not include compilation."""
    X = np.random.default_rng(0).random((8, 6))
    X = X.astype(np.float32 if data.X.dtype == np.float32 else np.float64)
    weights = X + 0.5 if weighted else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        nmf_merge(
            X, 2, weights=weights, n_extra=1, n_init=2, solver=solver, beta_loss=beta_loss,
            tol=1e-5, max_iter=100,
        )  # fmt: skip


def pages(fit: Fit, bar: ProgressBar | None = None) -> dict[str, str | bytes]:
    """The report and its figures, by their names in the folder."""
    drawing = _Drawing(bar)
    from nmfmerge.report import pages as of_report  # the drawing library loads for a second

    return of_report.pages(fit, drawing.tick)


class _Drawing:
    """Shows the progress of drawing the figures and sections of a report."""

    def __init__(self, bar: ProgressBar | None) -> None:
        self._bar, self._n_drawn = bar, 0
        if bar is not None:
            bar.enter("drawing", text="drawing the report")

    def tick(self, name: str) -> None:
        """Note a figure or section."""
        self._n_drawn += 1
        if self._bar is not None:
            self._bar.part(self._n_drawn / _DRAWINGS)


def pages_or_nothing(fit: Fit, bar: ProgressBar, folder: Path) -> dict[str, str | bytes]:
    """The report and its figures; empty if drawing fails or is interrupted."""
    try:
        return pages(fit, bar)
    except KeyboardInterrupt:
        why = "was interrupted"
    except Exception as error:  # whatever odd data make the drawing library raise
        why = f"failed ({one_line(error)})"
    again = shlex.join(["nmfmerge", "report", str(folder)])
    bar.write(f"nmfmerge: drawing the report {why}; the fit is written without it ({again})")
    return {}


def verdict_text(fit: Fit) -> str:
    """The summary of the report, for the terminal."""
    from nmfmerge.report.verdict import verdict

    fit = thinned(fit)
    said = verdict(fit.result, fit.about, fit.path or fit.consensus)
    return "".join(f"\n{topic}: {sentence}" for topic, sentence in said)


def summary(result: Factorization) -> dict[str, Any]:
    """A result for scripts, with its starts where there were several."""
    starts = [
        {
            "init": start.init,
            "seed": start.seed,
            "fitting_error": start.fitting_error,
            "n_iter": start.n_iter,
            "status": start.status,
            "components_found": start.n_found,
        }
        for start in result.starts
    ]
    of_starts = {"best_start": result.best_start + 1, "starts": starts} if starts else {}
    return {
        "n_components": result.n_components,
        "loss": result.loss,
        "fitting_error": result.fitting_error,
        "converged": result.converged,
        "status": result.status,
        "n_iter": result.n_iter,
        "seconds": result.seconds,
    } | of_starts


def print_outcome(given: argparse.Namespace, outcome: Mapping[str, Any], text: str) -> None:
    """Print the outcome of a command, for scripts or for people."""
    show(json.dumps(outcome, default=_plain) if given.json else text)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
