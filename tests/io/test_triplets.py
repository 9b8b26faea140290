import gzip

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from nmfmerge.io import read


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz"])
def test_triplets_are_what_pandas_pivots(tmp_path, rng, suffix):
    table = pd.DataFrame(
        {
            "word": rng.choice(["tea", "milk, fresh", "sugar", "cup"], 60),
            "document": rng.choice(["d3", "d1", "d2"], 60),
            "count": rng.integers(1, 9, 60),
            "note": "x",
        }
    )
    path = tmp_path / f"t.{suffix}"
    table.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    data = read(path, triplets=True)
    expected = table.pivot_table("count", "word", "document", aggfunc="sum", fill_value=0)
    assert (data.rows.name, data.columns.name) == ("word", "document")
    assert data.rows.values.tolist() == list(dict.fromkeys(table["word"]))
    assert sp.issparse(data.X)
    found = pd.DataFrame(data.X.toarray(), data.rows.values, data.columns.values)
    np.testing.assert_array_equal(found.loc[expected.index, expected.columns], expected)


def test_numbers_of_rows_and_columns_are_sorted(tmp_path):
    (tmp_path / "t.txt").write_text("10 2 1.5\n2 1 3\n10 2 0.5\n")
    data = read(tmp_path / "t.txt", triplets=True)
    assert (data.rows.values.tolist(), data.columns.values.tolist()) == ([2, 10], [1, 2])
    np.testing.assert_array_equal(data.X.toarray(), [[3, 0], [0, 2]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "2 cells in its first line"),
        ("a,b,c\n", "a header and no lines of values"),
        ("a,b,c\nx,y,1\nx,z,many\n", "line 3: expected a row, a column and a number"),
        ("a,b,c\nx,y,1\nx,z\n", "line 3: expected"),
    ],
)
def test_what_is_no_triplet_is_refused(tmp_path, refused, text, words):
    (tmp_path / "t.csv").write_text(text)
    refused(tmp_path / "t.csv", words, triplets=True)


def test_many_names_are_refused_before_they_take_memory(tmp_path, refused):
    text = "".join(f"r{i},c{i},1\n" for i in range(20_000))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    refused(tmp_path / "t.csv.gz", "needs", triplets=True, max_memory="2MB")
