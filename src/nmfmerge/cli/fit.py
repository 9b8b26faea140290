"""Fit a data file by NMF-Merge and write factors, figures and a report to a folder."""

import argparse
import json
import shlex
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

from nmfmerge.cli.common import (
    NOT_CONVERGED,
    OK,
    add_reading,
    digest,
    now,
    pages,
    reading_options,
    summary,
    tell,
    threads_for,
    versions,
    warm_up,
)
from nmfmerge.cli.progress import LiveLine
from nmfmerge.datasets.base import Dataset
from nmfmerge.folder import Fit, FolderError, refuse_existing, write
from nmfmerge.folder import read as read_folder
from nmfmerge.init import INITS
from nmfmerge.io import read
from nmfmerge.pipeline import nmf_merge
from nmfmerge.result import Factorization
from nmfmerge.run import Interrupted
from nmfmerge.solvers import SOLVERS

_LIMITS = ("max_iter", "max_time")  # which may be other ones when a run goes on


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `fit` takes."""
    parser.add_argument("file", type=Path, metavar="FILE", help="data file, or folder of images")
    parser.add_argument("-r", "--rank", type=int, required=True, help="number of components")
    parser.add_argument("-k", "--extra", type=int, help="extra components (a fifth of the rank)")
    parser.add_argument(
        "--solver", choices=list(SOLVERS), default="accelerated", help="(accelerated)"
    )
    parser.add_argument("--init", choices=list(INITS), default="nndsvd", help="start (nndsvd)")
    parser.add_argument("--tol", type=float, default=1e-4, help="of the final stage (1e-4)")
    parser.add_argument("--tol-intermediate", type=float, help="of the other stages (√tol)")
    parser.add_argument("--max-iter", type=int, default=10_000, help="of each stage (10000)")
    parser.add_argument("--max-time", type=float, help="in seconds, of all stages")
    parser.add_argument("--seed", type=int, help="of random starts")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="folder to write")
    parser.add_argument("--force", action="store_true", help="overwrite the folder")
    parser.add_argument("--no-report", action="store_true", help="leave out report and figures")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was cut off")
    add_reading(parser)


def run(given: argparse.Namespace) -> int:
    """Fit, write, tell."""
    output = given.output or Path(f"{given.file.name}.nmf")
    unfinished = output.with_name(output.name + ".unfinished")
    about = _about(given)
    again = given.resume and (output / "fit.json").exists() and not given.force
    if again:
        fit = _same_fit(output, about)
        if fit.result.converged:
            shutil.rmtree(unfinished, ignore_errors=True)  # killed before it could tidy up
        if not unfinished.exists():
            return _tell(given, output, fit.result, f"{output} is finished: nothing to resume")
    else:
        refuse_existing(output, given.force)
    data = read(given.file, **reading_options(given))
    checkpoint = _checkpoint(given, unfinished, about)
    try:
        result = _fit(given, data, checkpoint)
    except BaseException:
        if not checkpoint.exists():  # there is nothing to go on with
            shutil.rmtree(unfinished)
        raise
    fit = Fit(result, data, about)
    write(output, fit, {} if given.no_report else pages(fit), force=given.force or again)
    if result.converged:
        shutil.rmtree(unfinished)
    return _tell(given, output, result, f"{result}\nwritten to {output}")


def _tell(given: argparse.Namespace, output: Path, result: Factorization, text: str) -> int:
    tell(given, summary(result) | {"folder": str(output)}, text)
    return OK if result.converged else NOT_CONVERGED


def _same_fit(output: Path, about: dict[str, Any]) -> Fit:
    """The fit that is there, if it is the one that is asked for."""
    fit = read_folder(output)
    if _asked(fit.about) != _asked(about):
        raise FolderError(
            f"{output} is another fit, of other data or settings: name another folder with -o, or "
            "overwrite it with --force"
        )
    return fit


def _asked(about: dict[str, Any]) -> dict[str, Any]:
    """What makes two fits the same, apart from their limits."""
    settings = {name: value for name, value in about["settings"].items() if name not in _LIMITS}
    return {name: about[name] for name in ("reading", "data_sha256")} | settings


def _about(given: argparse.Namespace) -> dict[str, Any]:
    """What is told of a fit, enough to repeat it."""
    settings = {
        "n_components": given.rank,
        "n_extra": given.extra,
        "solver": given.solver,
        "init": given.init,
        "tol": given.tol,
        "tol_intermediate": given.tol_intermediate,
        "max_iter": given.max_iter,
        "max_time": given.max_time,
        "random_state": given.seed,
    }
    return {
        "title": given.file.name,
        "file": str(given.file.resolve()),
        "command": _command(given),
        "settings": settings,
        "reading": reading_options(given),
        "versions": versions(),
        "data_sha256": digest(given.file),
        "date": now(),
    }


def _command(given: argparse.Namespace) -> str:
    """The command that repeats a fit."""
    words = ["nmfmerge", "fit", str(given.file), "-r", str(given.rank)]
    usual = {"solver": "accelerated", "init": "nndsvd", "tol": 1e-4, "max_iter": 10_000}
    names = ("extra", "solver", "init", "tol", "tol_intermediate", "max_iter", "max_time", "seed")
    chosen = {name: getattr(given, name) for name in names} | reading_options(given)
    for name, value in chosen.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is False:
            words.append(flag.replace("--", "--no-", 1))
        elif value is not None and value != usual.get(name):
            words += [flag, str(value)]
    return shlex.join(words)


def _checkpoint(given: argparse.Namespace, folder: Path, about: dict[str, Any]) -> Path:
    """The file that keeps the state of the run while it lasts, in a folder of its own."""
    if folder.exists() and not given.resume:
        if not given.force:
            raise FolderError(
                f"{folder} holds a run that was cut off: go on with it by --resume, or begin anew "
                "by --force"
            )
        shutil.rmtree(folder)
    folder.mkdir(exist_ok=True)
    note = folder / "asked.json"
    if not note.exists():
        note.with_suffix(".new").write_text(json.dumps(_asked(about)), encoding="utf-8")
        note.with_suffix(".new").replace(note)
    elif json.loads(note.read_text(encoding="utf-8")) != _asked(about):
        raise FolderError(
            f"{folder} holds the run of another command: repeat that one to go on with it, or "
            "begin anew by --force"
        )
    return folder / "checkpoint.npz"


def _fit(given: argparse.Namespace, data: Dataset, checkpoint: Path) -> Factorization:
    warm_up(given.solver, data)
    live = LiveLine()
    try:
        with warnings.catch_warnings(record=True) as caught, threads_for(data, given.rank):
            warnings.simplefilter("always")
            result = nmf_merge(
                data.X,
                given.rank,
                n_extra=given.extra,
                solver=given.solver,
                init=given.init,
                tol=given.tol,
                tol_intermediate=given.tol_intermediate,
                max_iter=given.max_iter,
                max_time=given.max_time,
                random_state=given.seed,
                callback=live,
                checkpoint=checkpoint,
            )
    except Interrupted:
        live.clear()
        print("nmfmerge: go on with the same command and --resume", file=sys.stderr)
        raise
    live.clear()
    for warning in caught:
        print(f"nmfmerge: {warning.message}", file=sys.stderr)
    return result
