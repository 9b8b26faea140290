"""Fit a data file by NMF-Merge and write factors, figures and a report to a folder."""

import argparse
import shlex
import warnings
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any

from nmfmerge.api import nmf_merge
from nmfmerge.cli.common import (
    NOT_CONVERGED,
    OK,
    add_output,
    add_reading,
    how_made,
    pages_or_nothing,
    print_outcome,
    summary,
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
from nmfmerge.cli.messages import ANOTHER_FOLDER, LOSS_ADVICE, in_options
from nmfmerge.cli.progress import STANDARD, fit_bar
from nmfmerge.cli.settings import (
    AUTO,
    add_settings,
    chosen_settings,
    loss_of,
    setting_words,
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
from nmfmerge.cli.unfinished import Unfinished, add_resume, differences_in_words
from nmfmerge.cli.weights import (
    add_weights,
    check_weights,
    weights_of,
    weights_words,
)
from nmfmerge.datasets.base import Dataset
from nmfmerge.export.of_fit import Exports
from nmfmerge.inputs.lazy import is_lazy
from nmfmerge.io.errors import one_line
from nmfmerge.io.inspect import looks_like_counts
from nmfmerge.losses import LOSSES
from nmfmerge.matrices import DataReadError
from nmfmerge.matrices.base import TooLittleMemory
from nmfmerge.matrices.offers import Need
from nmfmerge.method.stop import Interrupted
from nmfmerge.ranks.alternatives import around, standard
from nmfmerge.ranks.path import rank_path
from nmfmerge.results.about import About
from nmfmerge.results.assessment import LEAST_RANKS, ROOM, Finding
from nmfmerge.results.factorization import Factorization
from nmfmerge.results.lazy_factors import computed
from nmfmerge.settings import SETTINGS
from nmfmerge.solvers import solvers_of
from nmfmerge.solvers.progress import ProgressBar
from nmfmerge.storage.checkpoint import differences
from nmfmerge.storage.folder import Fit, FolderError, check_output, find, write

_AUTO_MOST = 25  # components up to which ranks are tried with -r auto


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `fit`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="data file, or folder of images")
    add_settings(parser, "nmf_merge")
    add_output(parser, "output folder (default: FILE.nmf in the current folder)")
    parser.add_argument("--no-report", action="store_true", help="write no report and no figures")
    add_tables(parser)
    add_audio(parser)
    parser.add_argument(
        "--no-compare",
        action="store_true",
        help="skip the comparison with standard NMF and neighbouring ranks in the report",
    )
    add_resume(parser)
    add_weights(parser)
    add_streaming(parser)
    add_reading(parser)


def run(given: argparse.Namespace) -> int:
    """Fit, or continue a fit, and write it."""
    output = given.output or Path(f"{given.file.name}.nmf")
    _check_rank(given)
    _check_loss(given)
    check_weights(given)
    chosen = chosen_settings(given, "nmf_merge")
    words = setting_words(chosen, "nmf_merge") + export_words(given) + streaming_words(given)
    about = how_made(given, words + weights_words(given), chosen, whole=not streams(given))
    unfinished = Unfinished(output)
    if not unfinished.exists() and (fit := _earlier_fit(given, output, about)):
        return _print_finished(given, output, fit)
    with unfinished.locked():
        earlier = _earlier_fit(given, output, about)
        if earlier and earlier.result.converged:  # killed before it could tidy up
            unfinished.clear()
        if earlier and not unfinished.checkpoint.exists():
            return _print_finished(given, output, earlier)
        unfinished.refuse_to_lose(given)
        replace = given.force or earlier is not None
        check_output(output, replace, ANOTHER_FOLDER)
        if not given.resume:
            unfinished.clear()
        compares = not (given.no_compare or given.no_report or streams(given))
        with (
            fit_bar(given.n_extra != 0, compares, not given.no_report, streams(given)) as bar,
            streaming(given),
        ):
            bar.enter("reading")
            data = open_data(given)
            weights = weights_of(given, data)
            if given.n_components == AUTO:
                about = about.updated(**_settle_rank(given, data, weights, bar))
            check_exports(given, data, given.n_components, requested(given))
            _advise_on_loss(given, data, bar)
            result = _fit(given, data, weights, unfinished, bar)
            if streams(given):
                about = about.updated(**how_streamed(given, data))
                result = _with_all_factors(given, result, unfinished, bar)
                data = replace_fields(data, X=None)
            if compares and result.converged:
                judged = about.around is not None
                about = about.updated(**_compared(given, data, weights, result, bar, judged))
            fit = Fit(result, data, about, weights=weights)
            drawn = {} if given.no_report else pages_or_nothing(fit, bar, output)
            bar.enter("writing")
            exports = Exports(fit, requested(given))
            try:
                _write(given, output, fit, drawn, exports, replace, unfinished)
            except KeyboardInterrupt:
                unfinished.advise(bar)
                raise
        if result.converged:
            unfinished.clear()
    said = "" if given.no_report else verdict_text(fit)
    left_out = left_out_words(output) if streams(given) else ""
    text = f"{result}{said}\nwritten to {output}{exports.remarks}{left_out}"
    return _print_fit(given, output, result, text, about)


def _check_rank(given: argparse.Namespace) -> None:
    if given.n_components is None:
        file = shlex.quote(str(given.file))
        raise argparse.ArgumentTypeError(
            "the number of components is missing: give it with -r N, let the data decide with "
            f"-r {AUTO}, or look at all ranks with: nmfmerge path {file} --max N"
        )
    if given.n_components == AUTO and streams(given):
        raise ValueError(
            f"-r {AUTO} fits all ranks, which data that are streamed would take too long for; give "
            "a number with -r N"
        )


def _check_loss(given: argparse.Namespace) -> None:
    """Not every loss can judge ranks, or be computed of data that are streamed."""
    loss = LOSSES[loss_of(given)]
    if given.n_components == AUTO and not loss.judges_ranks:
        raise ValueError(
            f"-r {AUTO} judges ranks by the squared error; with --loss {given.beta_loss} give a "
            "number with -r N"
        )
    if Need.LINES in loss.needs and streams(given):
        raise ValueError(
            f"--loss {given.beta_loss} needs the data in memory; leave out "
            f"{' '.join(streaming_words(given)[:1])}, which streams them"
        )


def _advise_on_loss(given: argparse.Namespace, data: Dataset, bar: ProgressBar) -> None:
    """Recommend the Kullback–Leibler loss for counts, unless a loss was chosen."""
    can = given.solver in solvers_of(LOSSES["kullback-leibler"])
    if given.beta_loss is None and can and not streams(given) and looks_like_counts(data):
        bar.write(f"nmfmerge: {LOSS_ADVICE}")


def _settle_rank(
    given: argparse.Namespace, data: Dataset, weights: Any, bar: ProgressBar
) -> dict[str, Any]:
    """Choose the rank from the data where none was given; return the evidence."""
    most = min(_AUTO_MOST, min(data.X.shape) // ROOM)
    if most < LEAST_RANKS:
        m, n = data.X.shape
        raise ValueError(
            f"{m} × {n} data are too small to judge the rank by; give a number with -r N"
        )
    bar.section("all ranks")
    loss = loss_of(given)
    warm_up(given.solver, data, loss, weights is not None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a rank is compared even if it has not converged
        path = rank_path(
            data.X, most, weights=weights, solver=given.solver, beta_loss=loss,
            missing=given.missing, tol=given.tol, callback=bar,
        )  # fmt: skip
    bar.section("")
    assessment = path.assess()
    given.n_components = assessment.rank
    bends = ", where the error bends most" if assessment.finding is Finding.NONE else ""
    why = "" if assessment.low is not None else f"{bends}: a starting point only"
    bar.write(f"nmfmerge: {assessment} Fitting rank {assessment.rank}{why}.")
    return {"around": path.evidence().as_record()}


def _earlier_fit(given: argparse.Namespace, output: Path, about: About) -> Fit | None:
    """The fit in the output folder that ``--resume`` refers to, if there is one."""
    fit = find(output) if given.resume and not given.force else None
    if fit is None:
        return None
    if found := differences(_identity(fit.about), _identity(about)):
        raise FolderError(
            f"{output} is another fit ({differences_in_words(found)}): name another folder with "
            "-o, or overwrite it with --force"
        )
    return fit


def _fit(
    given: argparse.Namespace,
    data: Dataset,
    weights: Any,
    unfinished: Unfinished,
    bar: ProgressBar,
) -> Factorization:
    settings = chosen_settings(given, "nmf_merge")
    bar.enter("compiling")
    warm_up(given.solver, data, settings["beta_loss"], weights is not None)

    def show_warning(message: Any, *_: Any, **__: Any) -> None:
        bar.write(f"nmfmerge: {in_options(message)}")

    try:
        with unfinished.continued(), warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = show_warning
            return nmf_merge(
                data.X, weights=weights, **settings, callback=bar, checkpoint=unfinished.checkpoint
            )
    except Interrupted:
        unfinished.advise(bar)
        raise
    except DataReadError as error:
        more = ", more memory" if isinstance(error, TooLittleMemory) else ""
        unfinished.advise(bar, f"the same command{more}")
        why = in_words(error, given)
        raise FolderError(f"the fit of {given.file} stopped: {why}") from error


def _with_all_factors(
    given: argparse.Namespace, result: Factorization, unfinished: Unfinished, bar: ProgressBar
) -> Factorization:
    """The result for streamed data, with the lazy factor computed."""
    bar.enter("factors", text=f"computing {'H' if is_lazy(result.H) else 'W'}")
    try:
        return computed(result, unfinished.folder, most_of_a_factor(given), bar.part)
    except KeyboardInterrupt:
        unfinished.advise(bar)
        raise
    except Exception as error:  # whatever reading a chunk raises, here or on a worker
        unfinished.advise(bar)
        raise FolderError(
            f"{given.file} could not be read once more after the fit ({one_line(error)})"
        ) from error


def _compared(
    given: argparse.Namespace,
    data: Dataset,
    weights: Any,
    result: Factorization,
    bar: ProgressBar,
    judged: bool,
) -> dict[str, Any]:
    """The alternatives for the report; none after Ctrl-C, because the fit is done.

    Other ranks are left out where the rank is ``judged`` already.
    """
    found: dict[str, Any] = {}
    try:
        if given.n_extra != 0:
            bar.section(STANDARD)
            chosen = chosen_settings(given, "nmf_merge") | {"weights": weights}
            found["standard"] = standard(data.X, result, chosen, bar)
        if given.device is None and not judged and LOSSES[result.loss].judges_ranks:
            found["around"] = around(data.X, result.numpy(), bar, given.missing, weights)
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


def _print_finished(given: argparse.Namespace, output: Path, fit: Fit) -> int:
    text = f"{output} is finished: nothing to resume"
    if more := export_words(given):
        again = shlex.join(["nmfmerge", "export", str(output), *more])
        text += f"; its files are written again by: {again}"
    return _print_fit(given, output, fit.result, text, fit.about)


def _print_fit(
    given: argparse.Namespace,
    output: Path,
    result: Factorization,
    text: str,
    about: About,
) -> int:
    print_outcome(given, summary(result) | about.measured() | {"folder": str(output)}, text)
    return OK if result.converged else NOT_CONVERGED


def _identity(about: About) -> dict[str, Any]:
    """Everything that determines a fit: data, reading options, and all settings except limits."""
    data = about.data_sample_sha256 if about.data_sha256 is None else about.data_sha256
    weights = about.weights and about.weights["sha256"]
    reading = {"reading": about.reading, "data": data, "weights": weights}
    return reading | {
        name: value
        for name, value in about.settings.items()
        if name in SETTINGS and SETTINGS[name].decides
    }
