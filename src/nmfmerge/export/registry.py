"""All kinds of exports by name, and `write`."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from nmfmerge.datasets.base import Dataset
from nmfmerge.export import audio, images, lcms, single_cell
from nmfmerge.export.base import Export, ExportSource
from nmfmerge.io.errors import MissingLibrary, one_line
from nmfmerge.results.factorization import Factorization
from nmfmerge.storage.result_tables import fit_tables
from nmfmerge.storage.tables import write_tables

_ALL: tuple[Export, ...] = (  # from each file of this package
    lcms.EXPORT,
    audio.EXPORT,
    single_cell.EXPORT,
    images.EXPORT,
)
EXPORTS: Mapping[str, Export] = {export.name: export for export in _ALL}


def suitable(data: Dataset, requested: Collection[str] = ()) -> list[Export]:
    """The exports that data have something for; those on request only where they are named."""
    return [
        export
        for export in EXPORTS.values()
        if (not export.on_request or export.name in requested) and export.suits(data)
    ]


def check_requested(data: Dataset, names: Collection[str], flag: str = "") -> None:
    """Refuse exports that are not known or not for these data; ``flag`` is before a name."""
    for name in names:
        if name not in EXPORTS:
            raise ValueError(f"{name!r} is not an export: choose from {', '.join(EXPORTS)}")
        export = EXPORTS[name]
        if not export.suits(data):
            lacking = export.why_not(data) if export.why_not else ""
            lacking = lacking or f"{export.needs}, and {data.source or data.name} is none"
            raise ValueError(f"{flag}{name} needs {lacking}")


def write(
    result: Factorization,
    data: Dataset,
    folder: str | os.PathLike[str],
    *names: str,
    tables: str = "csv",
) -> dict[str, str]:
    """Write a result as tables, and in the files that its field opens next.

    Parameters
    ----------
    result : Factorization
        What to write.
    data : Dataset
        The factorized data, as returned by `nmfmerge.io.read`; its axes determine the field.
    folder : str or path
        Where to write; it is made where it is missing.
    *names : str
        Exports that are written on request only, such as "audio".
    tables : str
        Format of the tables: "csv", "parquet" or "xlsx".

    Returns
    -------
    left_out : dict of str
        Exports that need a library which is not installed, with the sentence that says how to
        install it.
    """
    check_requested(data, names)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    file = Path(data.source) if data.source else None
    source = ExportSource(result.numpy(), data, file if file and file.exists() else None)
    write_tables(folder, fit_tables(source.result, data), tables)
    return write_all(folder, source, names)


def write_all(
    folder: Path, source: ExportSource, requested: Collection[str] = (), *, keep_going: bool = False
) -> dict[str, str]:
    """Write every suitable export; one whose library is missing is left out, with the reason.

    With ``keep_going`` so is one that fails: no fit is lost for it. A full disk is an error still.
    """
    left_out = {}
    for export in suitable(source.data, requested):
        try:
            export.write(folder, source)
        except MissingLibrary as error:
            left_out[export.name] = str(error)
        except OSError:
            raise
        except Exception as error:
            if not keep_going:
                raise
            left_out[export.name] = f"the export {export.name!r} failed ({one_line(error)})"
    return left_out
