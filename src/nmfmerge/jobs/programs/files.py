"""Gene programmes as files, under the names that cNMF gives them: tables and figures."""

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmfmerge import plot
from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.io.errors import library

if TYPE_CHECKING:
    from nmfmerge.jobs.programs.result import Programs

_DPI = 150
_FORMAT = "%.9g"


def write(found: "Programs", folder: Path, name: str, coordinates: Any = None) -> None:
    """Write the tables and figures into a folder; see `Programs.write`."""
    folder.mkdir(parents=True, exist_ok=True)
    of_rank = f"k_{found.n_components}.dt_{str(found.density_threshold).replace('.', '_')}"
    for kind, table in _tables(found).items():
        write_table(table, folder / f"{name}.{kind.format(of_rank)}.txt")
    genes = found.spectra.columns
    (folder / f"{name}.overdispersed_genes.txt").write_text("\n".join(genes), encoding="utf-8")
    for kind, figure in _figures(found, coordinates).items():
        figure.savefig(folder / f"{name}.{kind.format(of_rank)}.png", dpi=_DPI)


def write_table(table: Any, path: Path) -> None:
    """Write a table as pandas would; one of finite numbers alone in a fraction of its time."""
    values = table.to_numpy()
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        table.to_csv(path, sep="\t", float_format=_FORMAT)
        return
    row = "\t".join([_FORMAT] * values.shape[1])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator=os.linesep)
        writer.writerow([table.index.name or "", *table.columns])
        for name, numbers in zip(table.index, values.tolist(), strict=True):
            writer.writerow([name, *(row % tuple(numbers)).split("\t")])


def _tables(found: "Programs") -> dict[str, Any]:
    """Tables by the middle of their names."""
    pandas = library("pandas", "tables of programmes", "pandas", "single-cell", doing="writing")
    top = found.top_genes()
    tables = {
        "usages.{}.consensus": found.usages,
        "spectra.{}.consensus": found.spectra,
        "gene_spectra_score.{}": found.gene_spectra_score,
        "gene_spectra_tpm.{}": found.gene_spectra_tpm,
        "top_genes.{}": top.set_axis(range(1, len(top) + 1)).rename_axis("rank"),
        "k_selection_stats": pandas.DataFrame(found.consensus.table()).set_index("rank"),
    }
    samples = found.sample_usages()
    return tables if samples is None else tables | {"sample_usages.{}": samples}


def _figures(found: "Programs", coordinates: Any) -> dict[str, Any]:
    """Figures by the middle of their names."""
    figures = {
        "k_selection": found.consensus.plot(),
        "clustering.{}": found.consensus.plot(found.n_components),
    }
    if coordinates is not None:
        of_cells = found.prepared.counts.of_cells
        places = _checked(coordinates, len(of_cells))[of_cells, :2]
        figures["umap.{}"] = plot.usage_maps(places, found.usages.to_numpy())
    samples = found.sample_usages()
    if samples is not None:
        figures["sample_usages.{}"] = plot.sample_usages(samples.to_numpy(), list(samples.index))
    return figures


def _checked(coordinates: Any, n_cells: int) -> np.ndarray:
    """Coordinates of all cells, in two dimensions or more."""
    places = np.asarray(coordinates)
    if places.ndim != 2 or len(places) != n_cells or places.shape[1] < 2:
        raise ArgumentError(
            "coordinates", f"has shape {places.shape}",
            expected=f"({n_cells}, 2): a row for each cell of the AnnData",
        )  # fmt: skip
    return places
