import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite

from nmfmerge.io import read


@pytest.fixture
def sparse(X):
    return sp.csr_matrix(np.where(X < 25, 0, X))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_matrix_market_sparse_becomes_csr(tmp_path, sparse, packed, transpose):
    path = tmp_path / "x.mtx"
    mmwrite(path, sparse)
    if packed:
        (tmp_path / "x.mtx.gz").write_bytes(gzip.compress(path.read_bytes()))
        path = tmp_path / "x.mtx.gz"
    data = read(path, transpose=transpose)
    assert data.X.format == "csr"
    assert data.name == "x"
    np.testing.assert_array_equal(
        data.X.toarray(), sparse.T.toarray() if transpose else sparse.toarray()
    )


def test_matrix_market_dense_and_integers(tmp_path, X, sparse):
    mmwrite(tmp_path / "x.mtx", X)
    np.testing.assert_array_equal(read(tmp_path / "x.mtx").X, X)
    mmwrite(tmp_path / "y.mtx", sparse.astype(np.int64))
    assert read(tmp_path / "y.mtx").X.dtype.kind == "i"


def test_matrix_market_adds_what_is_given_twice(tmp_path):
    text = "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1.5\n2 2 4\n1 1 2\n"
    (tmp_path / "x.mtx").write_text(text)
    data = read(tmp_path / "x.mtx")
    np.testing.assert_array_equal(data.X.toarray(), [[3.5, 0], [0, 4]])
    assert data.X.nnz == 2


@pytest.mark.parametrize(
    "text",
    [
        "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1.5\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1.5\n",
        "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 1.5 2\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 x\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 2\0",
        "%%MatrixMarket matrix coordinate real general\n",
    ],
)
def test_matrix_market_with_wrong_content_is_refused(tmp_path, refused, text):
    (tmp_path / "x.mtx").write_text(text)
    refused(tmp_path / "x.mtx")


def test_matrix_market_that_ends_in_half_a_number_is_refused(tmp_path, refused):
    text = "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 2"
    (tmp_path / "x.mtx").write_text(text)
    np.testing.assert_array_equal(read(tmp_path / "x.mtx").X.toarray(), [[2, 0], [0, 0]])
    (tmp_path / "x.mtx").write_text(text + "e")
    refused(tmp_path / "x.mtx", "is cut short")


def test_matrix_market_cut_short_is_refused(tmp_path, X, refused, cut):
    mmwrite(tmp_path / "x.mtx", X)
    refused(cut(tmp_path / "x.mtx"))


@pytest.mark.parametrize("layout", ["array", "coordinate"])
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_a_matrix_without_rows_or_columns_is_refused(tmp_path, refused, layout, shape):
    entries = " 0" if layout == "coordinate" else ""
    text = f"%%MatrixMarket matrix {layout} real general\n{shape[0]} {shape[1]}{entries}\n1.0\n"
    (tmp_path / "x.mtx").write_text(text)
    refused(tmp_path / "x.mtx", f"an empty matrix, {shape[0]} × {shape[1]}")
