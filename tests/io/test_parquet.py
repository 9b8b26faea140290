import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nmfmerge.io import read

GENES = ["TP53", "MYC", "KRAS", "EGFR", "ALK"]
CELLS = ["c1", "c2", "c3", "c4"]


def assert_table(data, X, rows, columns):
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.rows.values, rows)
    np.testing.assert_array_equal(data.columns.values, columns)


@pytest.mark.parametrize("transpose", [False, True])
def test_the_index_of_pandas_names_the_rows(tmp_path, X, transpose):
    pd.DataFrame(X, index=GENES, columns=CELLS).to_parquet(tmp_path / "x.parquet")
    data = read(tmp_path / "x.parquet", transpose=transpose)
    if transpose:
        assert_table(data, X.T, CELLS, GENES)
    else:
        assert_table(data, X, GENES, CELLS)


def test_the_name_of_the_index_names_the_axis(tmp_path, X):
    index = pd.Index([200.5, 201.5, 202.5, 203.5, 204.5], name="m/z")
    pd.DataFrame(X, index=index, columns=CELLS).to_parquet(tmp_path / "x.parquet")
    data = read(tmp_path / "x.parquet")
    assert_table(data, X, index, CELLS)
    assert data.rows.name == "m/z"


def test_two_levels_of_the_index_are_one_name(tmp_path, X):
    index = pd.MultiIndex.from_product([["a"], GENES], names=["sample", "gene"])
    pd.DataFrame(X, index=index, columns=CELLS).to_parquet(tmp_path / "x.parquet")
    data = read(tmp_path / "x.parquet")
    assert_table(data, X, [f"a/{gene}" for gene in GENES], CELLS)
    assert data.rows.name == "sample/gene"


def test_a_table_without_names_is_numbered_and_keeps_its_type(tmp_path, X):
    frame = pd.DataFrame(X.astype(np.int32), columns=CELLS)
    frame.to_parquet(tmp_path / "x.parquet")
    data = read(tmp_path / "x.parquet")
    assert_table(data, X, np.arange(5), CELLS)
    assert data.X.dtype == np.int32


@pytest.mark.parametrize("dictionary", [False, True])
def test_a_first_column_of_text_names_the_rows(tmp_path, X, dictionary):
    names = pa.array(GENES).dictionary_encode() if dictionary else pa.array(GENES)
    columns = {"gene": names} | dict(zip(CELLS, X.T, strict=True))
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    data = read(tmp_path / "x.parquet")
    assert_table(data, X, GENES, CELLS)
    assert data.rows.name == "gene"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": [1.0, 2.0], "b": ["x", "y"]}, "column 'b' of string, not of numbers"),
        ({"a": ["x", "y"]}, "no column of numbers"),
        ({"a": pa.array([], pa.float64())}, "no column of numbers"),
    ],
)
def test_what_is_no_matrix_is_refused(tmp_path, refused, columns, words):
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    refused(tmp_path / "x.parquet", words)


def test_empty_cells_are_missing(tmp_path):
    columns = {"a": [1.0, 2.0], "b": [1.5, None], "c": pa.array([None, 3], pa.int64())}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    np.testing.assert_array_equal(
        read(tmp_path / "x.parquet").X, [[1, 1.5, np.nan], [2, np.nan, 3]]
    )


def test_a_file_cut_short_is_refused(tmp_path, X, refused, cut):
    pd.DataFrame(X, columns=CELLS).to_parquet(tmp_path / "x.parquet")
    refused(cut(tmp_path / "x.parquet"), "cannot be read as parquet")


def test_without_pyarrow_the_command_is_given(tmp_path, X, needs):
    pd.DataFrame(X, columns=CELLS).to_parquet(tmp_path / "x.parquet")
    needs(tmp_path / "x.parquet", "pyarrow", "pyarrow", "tables")
