"""Find mutational signatures in a table of counts, or fit the counts by known ones."""

import argparse
import warnings
from pathlib import Path
from typing import Any

from nmfmerge.cli.common import (
    NOT_CONVERGED,
    OK,
    add_output,
    add_reading,
    how_made,
    print_outcome,
    reading_options,
)
from nmfmerge.cli.messages import ANOTHER_FOLDER, in_options
from nmfmerge.cli.progress import consensus_bar
from nmfmerge.cli.settings import (
    add_settings,
    chosen_settings,
    options_of,
    setting_words,
)
from nmfmerge.cli.unfinished import Unfinished, add_resume
from nmfmerge.io import read
from nmfmerge.jobs import Activities, Catalogue, Signatures, refit, signatures
from nmfmerge.jobs.mutations.catalogue import catalogue
from nmfmerge.jobs.mutations.extract import SignaturesInterrupted
from nmfmerge.jobs.mutations.reference import known_signatures
from nmfmerge.results.about import About
from nmfmerge.solvers.history import Status
from nmfmerge.solvers.progress import ProgressBar
from nmfmerge.storage.folder import check_output

_SWITCHES = {
    "--plain": "fit by standard NMF instead of NMF-Merge: faster, but some fits may end in "
    "worse solutions, and signatures then look less stable than they are",
    "--all-signatures": "with --refit: fit each sample by all known signatures, not by the few it "
    "needs",
}
_FILES = {
    "--reference": "table of known signatures to compare with, such as those of COSMIC",
    "--refit": "fit the samples by the known signatures of this table; look for no others",
}
_OF_REFIT = ("n_resamples", "random_state", "n_jobs")  # which refitting takes, too


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `signatures`."""
    parser.add_argument(
        "file", type=Path, metavar="FILE",
        help="table of mutation counts, types × samples or the other way round: SBS96, DBS78, "
        "ID83 or CNV48",
    )  # fmt: skip
    add_settings(parser, "signatures")
    for flag, text in _FILES.items():
        parser.add_argument(flag, type=Path, metavar="FILE", help=text)
    for flag, text in _SWITCHES.items():
        parser.add_argument(flag, action="store_true", help=text)
    add_resume(parser)
    add_output(parser, "output folder (default: FILE.signatures in the current folder)")
    parser.add_argument("--no-report", action="store_true", help="write no report and no figures")
    add_reading(parser)


def run(given: argparse.Namespace) -> int:
    """Find or refit signatures, write the folder, and print what was found."""
    output = given.output or Path(f"{given.file.name}.signatures")
    _check_together(given)
    about = how_made(given, _words(given), _settings(given))
    if given.refit is not None:
        return _refit(given, output, about)
    unfinished = Unfinished(output)
    with unfinished.locked():
        replace = unfinished.begin(given)
        with consensus_bar(not given.no_report) as bar:
            counts = _read(given, bar)
            try:
                found = _found(given, counts, unfinished, bar)
            except SignaturesInterrupted as interrupted:
                _write(given, output, interrupted.signatures, about, bar, replace)
                bar.write(f"nmfmerge: the signatures of the finished fits are written to {output}")
                unfinished.advise(bar)
                raise
            _write(given, output, found, about, bar, replace)
        if found.consensus.status is not Status.MAX_TIME:
            unfinished.clear()
    from nmfmerge.jobs.mutations.remarks import remarks

    print_outcome(
        given, _outcome(found) | {"folder": str(output)},
        "\n".join([_text(found), *remarks(found), f"written to {output}"]),
    )  # fmt: skip
    return OK if found.consensus.converged else NOT_CONVERGED


def _read(given: argparse.Namespace, bar: ProgressBar) -> Catalogue:
    bar.enter("reading")
    return catalogue(read(given.file, **reading_options(given)))


def _write(
    given: argparse.Namespace,
    output: Path,
    found: Signatures,
    about: About,
    bar: ProgressBar,
    replace: bool,
) -> None:
    bar.enter("drawing", text="drawing the signatures")
    from nmfmerge.jobs.mutations.folder import write_signatures  # which imports matplotlib

    write_signatures(output, found, about, report=not given.no_report, replace_fit=replace)


def _check_together(given: argparse.Namespace) -> None:
    """Refuse options that would have no effect."""
    if given.refit is None:
        if given.all_signatures:
            raise ValueError("--all-signatures has no effect without --refit: leave it out")
        return
    search = [
        setting.flags[-1]
        for name, setting in options_of("signatures").items()
        if name not in _OF_REFIT and getattr(given, name) != setting.of["signatures"]
    ]
    search += ["--resume"] * given.resume
    search += ["--plain"] * given.plain + ["--reference"] * (given.reference is not None)
    if search:
        raise ValueError(f"--refit looks for no other signatures: leave out {', '.join(search)}")


def _found(
    given: argparse.Namespace, counts: Catalogue, unfinished: Unfinished, bar: ProgressBar
) -> Signatures:
    options = chosen_settings(given, "signatures")
    try:
        with unfinished.continued(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return signatures(
                counts, **options, merge=not given.plain, reference=given.reference,
                callback=bar, checkpoint=unfinished.checkpoint,
            )  # fmt: skip
    finally:
        for warning in caught:
            bar.write(f"nmfmerge: {in_options(warning.message)}")


def _refit(given: argparse.Namespace, output: Path, about: About) -> int:
    check_output(output, given.force, ANOTHER_FOLDER)
    with consensus_bar(not given.no_report) as bar:
        counts = _read(given, bar)
    options = {"n_resamples": given.n_resamples, "random_state": given.random_state or 0}
    known = known_signatures(given.refit, counts.kind, "refit")
    fitted = refit(counts, known, sparse=not given.all_signatures, **options)
    from nmfmerge.jobs.mutations.folder import write_activities  # which imports matplotlib
    from nmfmerge.jobs.mutations.remarks import of_table

    write_activities(output, fitted, about, report=not given.no_report, replace_fit=given.force)
    lines = [f"{fitted!r}, {int(fitted.values.any(axis=1).sum())} of them used"]
    print_outcome(
        given, _of_activities(fitted) | {"folder": str(output)},
        "\n".join([*lines, *of_table(counts), f"written to {output}"]),
    )  # fmt: skip
    return OK


def _text(found: Signatures) -> str:
    lines = ["signatures  mean silhouette  least  fits that agree  error"]
    lines += [
        f"{one.signatures:>10} {one.mean:>16.3f} {one.least:>6.2f} {100 * one.agreement:>14.0f} % "
        f"{one.fitting_error:>6.3g} %{'  stable' if one.stable else ''}"
        for one in found.stability
    ]
    return "\n".join([*lines, "", repr(found)])


def _outcome(found: Signatures) -> dict[str, Any]:
    """The result for scripts."""
    return _of_activities(found.activities) | {
        "n_signatures": len(found.names),
        "reason": found.reason,
        "assessment": found.consensus.assess().reason,
        "stability": [one._asdict() for one in found.stability],
        "hypermutated": list(found.hypermutated),
        "matches": [one._asdict() for one in found.matches],
        "decomposition": [one._asdict() for one in found.parts],
        "converged": found.consensus.converged,
        "seconds": found.consensus.seconds,
    }


def _of_activities(fitted: Activities) -> dict[str, Any]:
    counts = fitted.catalogue
    return {
        "kind": counts.kind.name,
        "signatures": list(fitted.names),
        "samples": len(counts.samples),
        "left_out": list(counts.empty),
        "mutations": dict(zip(fitted.names, fitted.values.sum(axis=1).tolist(), strict=True)),
        "least_cosine": float(fitted.cosine.min()),
    }


def _settings(given: argparse.Namespace) -> dict[str, Any]:
    """The settings for the report, by names that people read."""
    common = {"Resampled counts": given.n_resamples, "random_state": given.random_state or 0}
    if given.refit is not None:
        few = "all known ones" if given.all_signatures else "the few it needs"
        return {"Known signatures": str(given.refit), "Signatures of a sample": few} | common
    tried = f"{given.min_signatures} to {given.max_signatures}"
    return {
        "Numbers of signatures": tried if given.n_signatures is None else given.n_signatures,
        "Fits at each number": given.n_fits,
        "Method": "standard NMF" if given.plain else "NMF-Merge",
        "Hypermutated samples": given.hypermutated,
        "Number chosen by": given.choose,
        "Known signatures": None if given.reference is None else str(given.reference),
        "device": given.device,
        "max_time": given.max_time,
    } | common


def _words(given: argparse.Namespace) -> list[str]:
    """The options as they are typed, without those that have their default."""
    words = setting_words(chosen_settings(given, "signatures"), "signatures")
    for name in ("reference", "refit"):
        if getattr(given, name) is not None:
            words += [f"--{name}", str(getattr(given, name))]
    words += ["--plain"] * given.plain
    return words + ["--all-signatures"] * given.all_signatures
