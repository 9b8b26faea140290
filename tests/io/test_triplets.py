import gzip

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from nmfmerge.io import ReadingWarning, read


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


def test_decimal_commas_are_values_and_no_header(tmp_path):
    (tmp_path / "t.csv").write_text("x;y;1,5\nx;z;2\n")
    np.testing.assert_array_equal(read(tmp_path / "t.csv", triplets=True).X.toarray(), [[1.5, 2]])


def test_many_names_are_refused_before_they_take_memory(tmp_path, refused):
    text = "".join(f"r{i},c{i},1\n" for i in range(20_000))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    refused(tmp_path / "t.csv.gz", "needs", triplets=True, max_memory="2MB")


WORDS = ["tea", "milk", "cup", "sugar", "spoon", "pot", "leaf"]
DOCUMENTS = ["first", "second", "third", "fourth"]


@pytest.fixture
def ids(tmp_path, rng):
    """Write triplets of ids, words × documents, of which some are never used."""

    def write(first, header="", used=(6, 3), swap=False):
        counts = np.zeros((len(WORDS), len(DOCUMENTS)), dtype=int)
        counts[: used[0], : used[1]] = rng.integers(1, 9, used)
        counts[2] = 0
        places = rng.permutation(np.argwhere(counts))
        lines = [(i + first, j + first, counts[i, j]) for i, j in places]
        lines = [(j, i, n) if swap else (i, j, n) for i, j, n in lines]
        (tmp_path / "t.csv").write_text(header + "".join(f"{i},{j},{n}\n" for i, j, n in lines))
        return tmp_path / "t.csv", counts

    return write


def beside(folder, words="vocab.txt", documents="documents.txt"):
    (folder / words).write_text("\n".join(WORDS) + "\n")
    (folder / documents).write_text("\n".join(DOCUMENTS) + "\n")


def assert_named(data, counts):
    """The counts stand at the names that the ids are places of."""
    axes = [data.rows.values.tolist(), data.columns.values.tolist()]
    X = data.X.toarray()
    if data.rows.name == "document":
        axes, X = axes[::-1], X.T
    words, documents = (
        [WORDS.index(name) for name in axes[0]],
        [DOCUMENTS.index(n) for n in axes[1]],
    )
    np.testing.assert_array_equal(X, counts[np.ix_(words, documents)])
    assert X.sum() == counts.sum()


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("header", [("", ""), ("wordID", "docID"), ("term", "document")])
def test_ids_are_named_by_the_files_beside(ids, tmp_path, first, swap, transpose, header):
    title = ",".join([*header[:: -1 if swap else 1], "count"]) + "\n" if header[0] else ""
    # without titles only a file with just enough names tells which side it is for
    path, counts = ids(first, title, (6, 3) if title else (7, 4), swap)
    beside(tmp_path)
    data = read(path, triplets=True, transpose=transpose)
    kinds = ("document", "word") if swap != transpose else ("word", "document")
    assert (data.rows.name, data.columns.name) == kinds
    assert_named(data, counts)
    side = "rows" if kinds[0] == "word" else "columns"
    assert f"names of the {side} from vocab.txt, by ids from {first}" in data.description


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("as_file", [False, True])
def test_ids_are_named_by_the_names_that_are_given(ids, tmp_path, first, transpose, as_file):
    path, counts = ids(first)
    beside(tmp_path, "my-words.txt", "my-documents.txt")
    names, kinds = [WORDS, DOCUMENTS], ["word", "document"]
    if as_file:
        names = [tmp_path / "my-words.txt", tmp_path / "my-documents.txt"]
    if transpose:
        names, kinds = names[::-1], kinds[::-1]
    options = dict(
        zip(("row_names", "column_names", "rows", "columns"), names + kinds, strict=True)
    )
    data = read(path, triplets=True, transpose=transpose, **options)
    assert [data.rows.name, data.columns.name] == kinds
    assert_named(data, counts)


def test_names_that_are_given_go_before_those_beside(ids, tmp_path):
    path, counts = ids(1, "word,document,count\n")
    beside(tmp_path)
    mine = [f"mine {word}" for word in WORDS]
    data = read(path, triplets=True, row_names=mine)
    assert data.rows.values.tolist() == [mine[i] for i in (0, 1, 3, 4, 5)]
    assert data.columns.values.tolist() == DOCUMENTS[:3]
    assert data.X.sum() == counts.sum()


@pytest.mark.parametrize("first", [0, 1])
def test_ids_beyond_the_names_are_refused_or_told(ids, tmp_path, refused, first):
    path, _ = ids(first, "word,document,count\n")
    refused(
        path, "row_names has 4 names", f"ids up to {5 + first}, counted from {first}",
        triplets=True, row_names=WORDS[:4],
    )  # fmt: skip
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS[:4]))
    with pytest.warns(ReadingWarning, match=r"it has 4 names .* ids beyond them") as caught:
        data = read(path, triplets=True)
    assert len(caught) == 1
    assert data.rows.values.dtype.kind == "i"


def test_ids_that_either_file_could_name_are_left_as_they_are(ids, tmp_path):
    path, _ = ids(1, used=(3, 3))
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    with pytest.warns(ReadingWarning, match="fits the ids of both sides"):
        data = read(path, triplets=True)
    assert (data.rows.name, data.columns.name) == ("row", "column")


def test_triplets_of_names_leave_files_beside_alone(tmp_path):
    beside(tmp_path)
    (tmp_path / "words.csv").write_text("word,document,count\ntea,a,1\ncup,b,2\n")
    data = read(tmp_path / "words.csv", triplets=True)
    assert data.rows.values.tolist() == ["tea", "cup"]
    assert data.description == ""


@pytest.mark.parametrize("cell", ["NA", "nan", ""])
def test_words_for_nothing_are_missing_and_absent_lines_are_zeros(tmp_path, cell):
    (tmp_path / "t.csv").write_text(f"row,column,value\nx,a,1\nx,b,{cell}\ny,a,2\n")
    X = read(tmp_path / "t.csv", triplets=True).X
    np.testing.assert_array_equal(X.toarray(), [[1, np.nan], [2, 0]])
