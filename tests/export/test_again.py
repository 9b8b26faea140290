"""What a field's fit leaves is known to be ours: it can be replaced, and exported again."""

from dataclasses import replace

import anndata
import numpy as np
import pandas as pd
import pytest
import tifffile

from nmfmerge.datasets import Axis
from nmfmerge.storage import folder as folders
from nmfmerge.storage.folder import FolderError, not_ours
from nmfmerge.storage.provenance import data_again
from tests.io.test_lcms import write_mzml


def cells(folder, rng):
    names = {"obs": [f"c{i}" for i in range(12)], "var": [f"g{i}" for i in range(9)]}
    frames = {name: pd.DataFrame(index=index) for name, index in names.items()}
    anndata.AnnData(rng.random((12, 9)), **frames).write_h5ad(folder / "x.h5ad")
    return folder / "x.h5ad", [], ["result.h5ad", "top-cells", "top-genes"]


def movie(folder, rng):
    tifffile.imwrite(folder / "x.tif", rng.random((12, 4, 5)), photometric="minisblack")
    return folder / "x.tif", [], ["maps.tif", "traces"]


def image(folder, rng):
    np.save(folder / "x.npy", rng.random((4, 5, 9)))
    np.savetxt(folder / "w.txt", np.arange(9))
    options = ["--pixel-axes", "0,1", "--wavelengths", folder / "w.txt"]
    return folder / "x.npy", options, ["maps.tif", "spectra"]


@pytest.mark.parametrize("tables", ["csv", "parquet", "xlsx"])
@pytest.mark.parametrize("make", [cells, movie, image])
def test_a_fit_with_files_of_its_field_is_replaced_and_exported(
    tmp_path, rng, command, make, tables
):
    file, options, expected = make(tmp_path, rng)
    out = tmp_path / "out"
    words = ["fit", file, "-r", 2, "--no-report", "-o", out, "--tables", tables, *options]
    assert command(*words)[0] == 0
    if tables == "xlsx":
        expected = ["tables.xlsx", *(name for name in expected if "." in name)]
    names = [name if "." in name else f"{name}.{tables}" for name in expected]
    assert {path.name for path in out.iterdir()} >= set(names)
    assert not_ours(out) == []
    code, _, err = command(*words, "--force")
    assert (code, err) == (0, "")
    for name in names:
        (out / name).unlink()
    code, _, err = command("export", out, "--tables", tables)
    assert (code, err) == (0, "")
    assert {path.name for path in out.iterdir()} >= set(names)


def test_data_that_another_version_binned_otherwise_are_not_taken_for_those_of_a_fit(
    tmp_path, command
):
    """Bins were from whole numbers on once, and named by their centres."""
    path = write_mzml(tmp_path / "x.mzML")
    assert command("fit", path, "-r", 2, "--no-report", "-o", tmp_path / "out")[0] == 0
    fit = folders.read(tmp_path / "out")
    np.testing.assert_array_equal(data_again(fit).rows.values, fit.data.rows.values)
    old = replace(fit, data=replace(fit.data, rows=Axis("m/z", 100.5 + np.arange(4))))
    assert data_again(old) is None
    with pytest.raises(FolderError, match="other rows or columns than those of the fit"):
        data_again(old, path)
