"""NaN in a file is missing, whatever the format."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite, savemat

from nmfmerge import nmf
from nmfmerge.io import read

X = np.random.default_rng(0).random((6, 5)).round(3)
X[1, 2] = X[4, 0] = np.nan
TABLE = pd.DataFrame(X, columns=list("abcde"))


def _anndata(form, write):
    def save(path):
        anndata = pytest.importorskip("anndata")
        getattr(anndata.AnnData(form(X)), write)(path)

    return save


def _hdf5(path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["X"] = X


def _zarr(path):
    pytest.importorskip("zarr").save(str(path), X)


def _tiff(path):
    images = X.T.reshape(5, 3, 2).astype(np.float32)
    pytest.importorskip("tifffile").imwrite(path, images, photometric="minisblack")


def _envi(path):
    path.with_suffix(".img").write_bytes(X.T.reshape(5, 6, 1).astype("<f4").tobytes())
    path.write_text(
        "ENVI\nsamples = 1\nlines = 6\nbands = 5\nheader offset = 0\nfile type = ENVI Standard\n"
        "data type = 4\ninterleave = bsq\nbyte order = 0\n"
    )


FILES = {
    "dense.npy": lambda path: np.save(path, X),
    "dense.npz": lambda path: np.savez(path, X=X),
    "sparse.npz": lambda path: sp.save_npz(path, sp.csr_array(X)),
    "dense.mtx": lambda path: mmwrite(path, X),
    "sparse.mtx": lambda path: mmwrite(path, sp.coo_array(X)),
    "dense.mat": lambda path: savemat(path, {"X": X}),
    "sparse.mat": lambda path: savemat(path, {"X": sp.csc_matrix(X)}),
    "dense.h5": _hdf5,
    "dense.zarr": _zarr,
    "table.csv": lambda path: TABLE.to_csv(path, index=False),
    "table.tsv": lambda path: TABLE.to_csv(path, index=False, sep="\t"),
    "table.xlsx": lambda path: TABLE.to_excel(path, index=False),
    "table.parquet": lambda path: TABLE.to_parquet(path),
    "dense.h5ad": _anndata(np.array, "write_h5ad"),
    "sparse.h5ad": _anndata(sp.csr_matrix, "write_h5ad"),
    "images.tif": _tiff,
    "cube.hdr": _envi,
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of the libraries that write
def test_what_a_file_has_as_nan_is_missing(name, tmp_path):
    FILES[name](tmp_path / name)
    data = read(tmp_path / name)
    values = data.X.toarray() if sp.issparse(data.X) else np.asarray(data.X)
    values = values if values.shape == X.shape else values.T
    np.testing.assert_allclose(values, X, rtol=1e-6)
    assert nmf(data, 1, tol=1e-1).n_missing == 2
