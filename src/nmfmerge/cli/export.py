"""Write tables, and files for the programs of your field, into the folder of a fit."""

import argparse
import os
import shutil
from dataclasses import replace
from pathlib import Path

from nmfmerge.cli.common import OK, add_data, print_outcome
from nmfmerge.cli.exporting import add_audio, add_tables, check_exports, requested
from nmfmerge.export.of_fit import Exports
from nmfmerge.storage.folder import Fit, FolderError, read
from nmfmerge.storage.manifest import add_files
from nmfmerge.storage.provenance import data_again, why_absent
from nmfmerge.storage.result_tables import fit_tables
from nmfmerge.storage.swap import scratch_folder
from nmfmerge.storage.tables import write_tables

_WHOLE = "result.h5ad"  # has all of the data file in it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `export`."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder written by `fit`")
    add_tables(parser)
    add_audio(parser)
    add_data(parser)


def run(given: argparse.Namespace) -> int:
    """Write from the folder, and from the data if their file still exists."""
    fit = read(given.folder)
    data = data_again(fit, given.data)
    if data is None and given.audio:
        raise FolderError(
            f"--audio needs the recording of {given.folder} ({fit.about.file}), which is "
            "not there unchanged: name its file with --data"
        )
    file = {} if given.data is None else {"file": str(given.data.resolve())}
    fit = replace(fit, data=data or fit.data, about=fit.about.updated(**file))
    check_exports(given, fit.data, fit.result.n_components, requested(given))
    exports = Exports(fit, requested(given))
    names = _write(given.folder, fit, exports, given.tables)
    is_kept = (given.folder / _WHOLE).exists() and _WHOLE not in names
    remark = f"\n{_WHOLE} was not changed: its data {why_absent(fit)}" * is_kept
    print_outcome(
        given,
        {"folder": str(given.folder), "files": names, "left_out": exports.left_out},
        f"written to {given.folder}: {', '.join(names)}{exports.remarks}{remark}",
    )
    return OK


def _write(folder: Path, fit: Fit, exports: Exports, tables: str) -> list[str]:
    """Write all files beside the folder, then move each to its place; return their names."""
    scratch = scratch_folder(folder.resolve())
    try:
        scratch.mkdir()
        made = fit_tables(fit.result, fit.data, fit.path, fit.consensus)
        write_tables(scratch, made, tables)
        exports(scratch)
        if fit.data.X is None and (folder / _WHOLE).exists():
            (scratch / _WHOLE).unlink(missing_ok=True)  # it has more than can be written now
        files = sorted(path for path in scratch.rglob("*") if path.is_file())
        names = [file.relative_to(scratch).as_posix() for file in files]
        add_files(folder, names)
        for file, name in zip(files, names, strict=True):
            (folder / name).parent.mkdir(exist_ok=True)
            os.replace(file, folder / name)
    except OSError as error:
        raise FolderError(f"{folder} could not be written ({error.strerror or error})") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return names
