import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from anndata.utils import make_index_unique
from hypothesis import given
from hypothesis import strategies as st
from pandas import Index
from scipy.io import mmwrite, savemat

from nmfmerge.io import FormatError, ReadingWarning, describe, read
from nmfmerge.io.names import make_unique

ROWS, COLUMNS = [f"row {i}" for i in range(5)], ["alpha", "beta,2", "γ", "δ"]


def write(path, X):
    if path.suffix == ".mtx":
        mmwrite(path, sp.csr_matrix(X))
    elif path.suffix == ".mat":
        savemat(path, {"X": X})
    elif path.suffix == ".npz":
        sp.save_npz(path, sp.csr_matrix(X))
    elif path.suffix == ".npy":
        np.save(path, X)
    else:
        np.savetxt(path, X)
    return path


def lines(path, names, end="\n"):
    text = "".join(f"{name}{end}" for name in names).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


ANY = ["npy", "npz", "mat", "mtx", "txt"]
BESIDE = ["npy", "npz", "mat", "mtx"]


@pytest.mark.parametrize("suffix", ANY)
@pytest.mark.parametrize("transpose", [False, True])
def test_names_of_rows_and_columns_are_given_for_any_format(tmp_path, X, suffix, transpose):
    path = write(tmp_path / f"x.{suffix}", X)
    X = X.T if transpose else X
    first, second = (COLUMNS, ROWS) if transpose else (ROWS, COLUMNS)
    data = read(
        path,
        transpose=transpose,
        row_names=lines(tmp_path / "r.names", first, "\r\n"),
        column_names=str(lines(tmp_path / "c.names.gz", second)),
    )
    np.testing.assert_array_equal(data.rows.values, first)
    np.testing.assert_array_equal(data.columns.values, second)
    assert data.X.shape == X.shape
    assert "r.names" in data.description
    np.testing.assert_array_equal(read(path, row_names=ROWS).rows.values, ROWS)
    assert read(path, row_names=[1.5, 2, 3, 4, 5]).rows.values.tolist() == [1.5, 2, 3, 4, 5]


def test_the_first_column_of_a_table_has_the_names(tmp_path, X):
    path = write(tmp_path / "x.npy", X)
    table = lines(tmp_path / "t.tsv", [f"{name}\tother" for name in ROWS])
    np.testing.assert_array_equal(read(path, row_names=table).rows.values, ROWS)
    table = lines(tmp_path / "t.csv", [f'"{name}",1' for name in COLUMNS])
    np.testing.assert_array_equal(read(path, column_names=table).columns.values, COLUMNS)


def test_names_that_do_not_fit_are_refused_in_one_sentence(tmp_path, X, refused):
    path = write(tmp_path / "x.npy", X)
    file = lines(tmp_path / "n.txt", [*ROWS, "one", "more"])
    refused(path, f"row_names='{file}' has 7 names", "has 5 rows: give one for each",
            row_names=str(file))  # fmt: skip
    file = lines(tmp_path / "n.txt", ["title", *ROWS])
    refused(path, "remove its first line if that is a title", row_names=str(file))
    refused(path, "column_names has 5 names", "has 4 columns", column_names=ROWS)
    with pytest.raises(FileNotFoundError, match=r"absent\.txt was not found"):
        read(path, row_names="absent.txt")
    with pytest.raises(ValueError, match="name a text file with one name a line"):
        read(path, row_names=3)
    (tmp_path / "n.txt").write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(FormatError, match="is not text in UTF-8"):
        read(path, row_names=tmp_path / "n.txt")


def test_what_the_sides_are_can_be_said(tmp_path, X):
    data = read(write(tmp_path / "x.npy", X), rows="gene", columns="patient")
    assert (data.rows.name, data.columns.name) == ("gene", "patient")


@pytest.mark.parametrize("suffix", BESIDE)
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(
    ("words", "documents"),
    [
        ("vocabulary.txt", "documents.txt"),
        ("vocab.txt.gz", "titles.csv"),
        ("x_vocabulary.txt", "x.docs.tsv"),
        ("terms.txt", "docs.txt"),
        ("x-words.txt", "documents.tsv.gz"),
    ],
)
def test_names_beside_a_matrix_go_to_the_side_that_fits(
    tmp_path, X, suffix, transpose, words, documents
):
    path = write(tmp_path / f"x.{suffix}", X)
    names = [name.replace(",", " ") for name in COLUMNS]
    lines(tmp_path / words, names)
    lines(tmp_path / documents, ROWS)
    data = read(path, transpose=transpose)
    docs, vocabulary = (data.columns, data.rows) if transpose else (data.rows, data.columns)
    assert (docs.name, vocabulary.name) == ("document", "word")
    np.testing.assert_array_equal(vocabulary.values, names)
    np.testing.assert_array_equal(docs.values, ROWS)
    facts = describe(data)
    assert words in facts["description"]
    assert documents in facts["description"]


def test_the_file_that_begins_as_the_matrix_does_goes_first(tmp_path, X):
    path = write(tmp_path / "x.npy", X)
    lines(tmp_path / "vocabulary.txt", ["other"] * 9)
    lines(tmp_path / "x_vocab.txt", COLUMNS)
    assert read(path).columns.values.tolist() == COLUMNS


def test_genes_and_cells_beside_a_matrix_have_symbols(tmp_path, X):
    path = write(tmp_path / "x.mtx", X)
    lines(tmp_path / "genes.tsv", [f"ENSG{i}\tG{i // 2}" for i in range(5)])
    lines(tmp_path / "barcodes.tsv", COLUMNS)
    data = read(path)
    assert (data.rows.name, data.columns.name) == ("gene", "cell")
    assert data.rows.values.tolist() == ["G0", "G0-1", "G1", "G1-1", "G2"]


def test_names_that_fit_both_sides_or_none_are_left_out_with_a_warning(tmp_path, rng):
    path = write(tmp_path / "x.npy", rng.random((4, 4)))
    vocabulary = lines(tmp_path / "vocabulary.txt", COLUMNS)
    with pytest.warns(ReadingWarning, match="fits both sides: say which with row_names= or") as w:
        data = read(path)
    assert str(vocabulary) in str(w[0].message)
    assert (data.rows.name, data.columns.name, data.description) == ("row", "column", "")
    data = read(path, row_names=vocabulary)
    assert data.rows.name == "word"
    lines(vocabulary, ROWS)
    with pytest.warns(ReadingWarning, match="fits no side that has no names yet: correct the file"):
        read(path)
    assert read(path, row_names=COLUMNS, column_names=COLUMNS).rows.values.tolist() == COLUMNS


def test_tables_with_names_of_their_own_do_not_look_beside(tmp_path, X):
    path = write(tmp_path / "x.txt", X)
    lines(tmp_path / "vocabulary.txt", COLUMNS)
    assert read(path).columns.name == "column"


@given(st.lists(st.sampled_from(["a", "b", "a-1", "a-2", "a-1-1", "b-1", ""]), max_size=12))
def test_names_become_unique_as_in_anndata(names):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that look as if made unique
        expected = make_index_unique(Index(names, dtype=object))
    assert make_unique(names) == expected.tolist()
