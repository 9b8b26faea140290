"""Fit a data file by NMF-Merge and write factors, figures and a report to a folder."""

import argparse
import shlex
import warnings
from collections.abc import Mapping
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any

from nmfmerge.alternatives import MEASURED, around, standard
from nmfmerge.assessment import LEAST_RANKS, ROOM
from nmfmerge.checkpoint import CheckpointError, OtherRun, differences
from nmfmerge.cli.common import (
    NOT_CONVERGED,
    OK,
    add_output,
    add_reading,
    how_made,
    pages_or_nothing,
    summary,
    tell,
    verdict_text,
    warm_up,
)
from nmfmerge.cli.exporting import (
    add_audio,
    add_tables,
    check_exports,
    export_words,
    requested,
)
from nmfmerge.cli.messages import in_options
from nmfmerge.cli.progress import STANDARD, fit_bar
from nmfmerge.cli.settings import (
    AUTO,
    FLAGS,
    LIMITS,
    add_settings,
    chosen_settings,
    setting_words,
    settle_starts,
)
from nmfmerge.cli.streaming import (
    add_streaming,
    how_streamed,
    in_words,
    left_out_words,
    most_of_a_factor,
    open_data,
    streaming,
    streaming_words,
    streams,
)
from nmfmerge.cli.unfinished import Unfinished
from nmfmerge.data import Unreadable
from nmfmerge.data.base import TooLittleMemory
from nmfmerge.datasets.base import Dataset
from nmfmerge.export.of_fit import Exports
from nmfmerge.folder import Fit, FolderError, check_output, find, write
from nmfmerge.io.errors import one_line
from nmfmerge.lazy import is_lazy
from nmfmerge.lazy_factors import computed
from nmfmerge.pipeline import nmf_merge
from nmfmerge.progress import ProgressBar
from nmfmerge.ranks import rank_path
from nmfmerge.result import Factorization
from nmfmerge.run import Interrupted

_AUTO_MOST = 25  # components that are tried where the rank is left to the data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `fit`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="data file, or folder of images")
    add_settings(parser)
    add_output(parser, "folder to write (default: FILE.nmf in the present folder)")
    parser.add_argument("--no-report", action="store_true", help="write no report and no figures")
    add_tables(parser)
    add_audio(parser)
    parser.add_argument(
        "--no-compare",
        action="store_true",
        help="do not fit standard NMF and the ranks around, which the report compares",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with a run that was interrupted, if there is one",
    )
    add_streaming(parser)
    add_reading(parser)


def run(given: argparse.Namespace) -> int:
    """Fit, or go on with a fit, and write it."""
    output = given.output or Path(f"{given.file.name}.nmf")
    settle_starts(given)
    _check_rank(given)
    words = [*setting_words(given), *export_words(given), *streaming_words(given)]
    about = how_made(given, words, chosen_settings(given), whole=not streams(given))
    unfinished = Unfinished(output)
    if not unfinished.exists() and (fit := _earlier_fit(given, output, about)):
        return _tell_finished(given, output, fit)
    with unfinished.locked():
        earlier = _earlier_fit(given, output, about)
        if earlier and earlier.result.converged:  # killed before it could tidy up
            unfinished.clear()
        if earlier and not unfinished.checkpoint.exists():
            return _tell_finished(given, output, earlier)
        _refuse_to_lose(given, unfinished)
        replace = given.force or earlier is not None
        check_output(output, replace)
        if not given.resume:
            unfinished.clear()
        compares = not (given.no_compare or given.no_report or streams(given))
        with (
            fit_bar(given.n_extra != 0, compares, not given.no_report, streams(given)) as bar,
            streaming(given),
        ):
            bar.enter("reading")
            data = open_data(given)
            if given.n_components == AUTO:
                about |= _settle_rank(given, data, bar)
            check_exports(given, data, given.n_components, requested(given))
            result = _fit(given, data, unfinished, bar)
            if streams(given):
                about |= how_streamed(given, data)
                result = _with_all_factors(given, result, unfinished, bar)
                data = replace_fields(data, X=None)
            if compares and result.converged:
                about |= _compared(given, data, result, bar, judged="around" in about)
            fit = Fit(result, data, about)
            drawn = {} if given.no_report else pages_or_nothing(fit, bar, output)
            bar.enter("writing")
            exports = Exports(fit, requested(given))
            try:
                _write(given, output, fit, drawn, exports, replace, unfinished)
            except KeyboardInterrupt:
                _advise_to_resume(unfinished, bar)
                raise
        if result.converged:
            unfinished.clear()
    said = "" if given.no_report else verdict_text(fit)
    left_out = left_out_words(output) if streams(given) else ""
    text = f"{result}{said}\nwritten to {output}{exports.remarks}{left_out}"
    return _tell(given, output, result, text, about)


def _check_rank(given: argparse.Namespace) -> None:
    if given.n_components is None:
        file = shlex.quote(str(given.file))
        raise argparse.ArgumentTypeError(
            "the number of components is missing: give it with -r N, leave it to the data with "
            f"-r {AUTO}, or look at all ranks with: nmfmerge path {file} --max N"
        )
    if given.n_components == AUTO and streams(given):
        raise ValueError(
            f"-r {AUTO} fits all ranks, which data that are streamed would take too long for; give "
            "a number with -r N"
        )


def _settle_rank(given: argparse.Namespace, data: Dataset, bar: ProgressBar) -> dict[str, Any]:
    """Put the rank in that the data speak for; return what it was judged by."""
    most = min(_AUTO_MOST, min(data.X.shape) // ROOM)
    if most < LEAST_RANKS:
        m, n = data.X.shape
        raise ValueError(
            f"{m} × {n} data are too small to judge the rank by; give a number with -r N"
        )
    bar.section("all ranks")
    warm_up(given.solver, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a rank that has not converged is compared as it is
        path = rank_path(data.X, most, solver=given.solver, tol=given.tol, callback=bar)
    bar.section("")
    assessment = path.assess()
    given.n_components = assessment.rank
    why = (
        "" if assessment.low is not None else ", where the error bends most: a starting point only"
    )
    bar.write(f"nmfmerge: {assessment} Fitting rank {assessment.rank}{why}.")
    return {"around": path.evidence().as_record()}


def _earlier_fit(given: argparse.Namespace, output: Path, about: dict[str, Any]) -> Fit | None:
    """The fit in the output folder that ``--resume`` is about, if there is one."""
    fit = find(output) if given.resume and not given.force else None
    if fit is None:
        return None
    if found := differences(_identity(fit.about), _identity(about)):
        raise FolderError(
            f"{output} is another fit ({_in_words(found)}): name another folder with -o, or "
            "overwrite it with --force"
        )
    return fit


def _refuse_to_lose(given: argparse.Namespace, unfinished: Unfinished) -> None:
    if unfinished.checkpoint.exists() and not (given.resume or given.force):
        raise FolderError(
            f"{unfinished.folder} holds a run that was interrupted: go on with it by --resume, or "
            "begin anew by --force"
        )


def _fit(
    given: argparse.Namespace, data: Dataset, unfinished: Unfinished, bar: ProgressBar
) -> Factorization:
    settings = chosen_settings(given)
    bar.enter("compiling")
    warm_up(given.solver, data)

    def show_warning(message: Any, *_: Any, **__: Any) -> None:
        bar.write(f"nmfmerge: {in_options(str(message), given)}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = show_warning
            return nmf_merge(data.X, **settings, callback=bar, checkpoint=unfinished.checkpoint)
    except OtherRun as error:
        raise FolderError(
            f"{unfinished.folder} holds the run of another command "
            f"({_in_words(error.differences)}): repeat that command to go on with it, or begin "
            "anew with --force"
        ) from error
    except CheckpointError as error:
        raise FolderError(
            f"{unfinished.checkpoint} {error.fault}: begin anew with --force"
        ) from error
    except Interrupted:
        _advise_to_resume(unfinished, bar)
        raise
    except Unreadable as error:
        more = ", more memory" if isinstance(error, TooLittleMemory) else ""
        _advise_to_resume(unfinished, bar, f"the same command{more}")
        why = in_words(error, given)
        raise FolderError(f"the fit of {given.file} stopped: {why}") from error


def _with_all_factors(
    given: argparse.Namespace, result: Factorization, unfinished: Unfinished, bar: ProgressBar
) -> Factorization:
    """The result of data that are streamed, with the factor that is computed from the other."""
    bar.enter("factors", text=f"computing {'H' if is_lazy(result.H) else 'W'}")
    try:
        return computed(result, unfinished.folder, most_of_a_factor(given), bar.part)
    except KeyboardInterrupt:
        _advise_to_resume(unfinished, bar)
        raise
    except Exception as error:  # whatever reading a chunk raises, here or on a worker
        _advise_to_resume(unfinished, bar)
        raise FolderError(
            f"{given.file} could not be read once more after the fit ({one_line(error)})"
        ) from error


def _advise_to_resume(
    unfinished: Unfinished, bar: ProgressBar, how: str = "the same command"
) -> None:
    if unfinished.checkpoint.exists():
        bar.write(f"nmfmerge: go on with {how} and --resume")


def _compared(
    given: argparse.Namespace,
    data: Dataset,
    result: Factorization,
    bar: ProgressBar,
    judged: bool,
) -> dict[str, Any]:
    """What else one might have done, for the report; nothing after Ctrl-C, as the fit is done.

    Other ranks are left out where the rank is ``judged`` already.
    """
    found: dict[str, Any] = {}
    try:
        if given.n_extra != 0:
            bar.section(STANDARD)
            found["standard"] = standard(data.X, result, chosen_settings(given), bar)
        if given.device is None and not judged:
            found["around"] = around(data.X, result.numpy(), bar)
    except KeyboardInterrupt:
        bar.write("nmfmerge: the fit is done; the comparison with other fits is left out")
    bar.section("")
    return found


def _write(
    given: argparse.Namespace,
    output: Path,
    fit: Fit,
    drawn: dict[str, str | bytes],
    exports: Exports,
    replace: bool,
    unfinished: Unfinished,
) -> None:
    try:
        write(output, fit, drawn, exports=exports, tables=given.tables, replace=replace)
    except OSError as error:
        rescue = ", then repeat the command with --resume" * unfinished.checkpoint.exists()
        raise FolderError(
            f"{output} could not be written ({error.strerror or error}): make room{rescue}"
        ) from error


def _tell_finished(given: argparse.Namespace, output: Path, fit: Fit) -> int:
    text = f"{output} is finished: nothing to resume"
    if more := export_words(given):
        again = shlex.join(["nmfmerge", "export", str(output), *more])
        text += f"; its files are written again by: {again}"
    return _tell(given, output, fit.result, text, fit.about)


def _tell(
    given: argparse.Namespace,
    output: Path,
    result: Factorization,
    text: str,
    about: Mapping[str, Any],
) -> int:
    compared = {name: about[name] for name in MEASURED if name in about}
    tell(given, summary(result) | compared | {"folder": str(output)}, text)
    return OK if result.converged else NOT_CONVERGED


def _identity(about: dict[str, Any]) -> dict[str, Any]:
    """What decides the result of a fit: data, how they are read, and all settings but limits."""
    settings = {"n_init": 1} | about.get("settings", {})  # there were fits without this setting
    data = about.get("data_sha256", about.get("data_sample_sha256"))
    reading = {"reading": about.get("reading", {}), "data": data}
    return reading | {name: settings[name] for name in settings if name not in LIMITS}


def _in_words(found: dict[str, tuple[Any, Any]]) -> str:
    """Differences of two runs in options."""
    data = {"data", "shape", "dtype", "reading"} & set(found)
    words = ["other data, or read otherwise"] if data else []
    words += [
        f"{FLAGS.get(name, name)} {saved}, now {present}"
        for name, (saved, present) in found.items()
        if name not in data
    ]
    return "; ".join(words)
