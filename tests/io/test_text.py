import csv
import gzip
from itertools import product

import numpy as np
import pandas as pd
import pytest

from nmfmerge.io import read

GENES = ["TP53", "MYC", 'K"R"AS, 2', "EGFR", "Ωmega"]
CELLS = ["c1", "c2", "c;3", "c4"]


@pytest.fixture
def table(X):
    return pd.DataFrame(X, index=GENES, columns=CELLS)


def write(tmp_path, text, name="x.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def assert_table(data, X, rows, columns):
    np.testing.assert_array_equal(data.X, X)
    assert data.X.dtype == np.float64
    np.testing.assert_array_equal(data.rows.values, rows)
    np.testing.assert_array_equal(data.columns.values, columns)


@pytest.mark.parametrize(
    ("name", "separator"),
    [
        *product(["x.csv", "x.txt", "x.csv.gz"], [",", ";", "\t"]),
        *product(["x.tsv", "x.TSV.gz"], ["\t"]),
        ("x.txt", " "),
    ],
)
def test_a_table_of_pandas_comes_back_with_its_names(tmp_path, table, X, name, separator):
    table.to_csv(tmp_path / name, sep=separator)
    data = read(tmp_path / name)
    assert_table(data, X, GENES, CELLS)
    assert data.name == "x"


def test_the_corner_names_the_rows(tmp_path, table, X):
    table.to_csv(tmp_path / "x.csv", index_label="gene")
    data = read(tmp_path / "x.csv")
    assert_table(data, X, GENES, CELLS)
    assert (data.rows.name, data.columns.name) == ("gene", "column")


def test_transpose_swaps_names(tmp_path, table, X):
    table.to_csv(tmp_path / "x.csv")
    assert_table(read(tmp_path / "x.csv", transpose=True), X.T, CELLS, GENES)


def test_a_header_alone_and_row_names_alone(tmp_path, table, X):
    table.to_csv(tmp_path / "header.csv", index=False)
    assert_table(read(tmp_path / "header.csv"), X, np.arange(5), CELLS)
    table.to_csv(tmp_path / "names.csv", header=False)
    assert_table(read(tmp_path / "names.csv"), X, GENES, np.arange(4))


@pytest.mark.parametrize("delimiter", [" ", ",", ";", "\t"])
def test_a_plain_table_of_numpy_is_numbered(tmp_path, X, delimiter):
    np.savetxt(tmp_path / "x.txt", X, delimiter=delimiter)
    assert_table(read(tmp_path / "x.txt"), X, np.arange(5), np.arange(4))


def test_a_header_of_numpy_in_a_comment_names_the_columns(tmp_path, X):
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header="one line of words\na,b,c,d")
    assert_table(read(tmp_path / "x.csv"), X, np.arange(5), list("abcd"))


def test_a_comment_that_is_no_header_is_left_out(tmp_path, X):
    np.savetxt(tmp_path / "x.txt", X, header="made on Monday morning")
    assert_table(read(tmp_path / "x.txt"), X, np.arange(5), np.arange(4))


def test_an_index_of_numbers_under_an_empty_corner_is_not_data(tmp_path, X):
    pd.DataFrame(X).to_csv(tmp_path / "x.csv")
    assert_table(read(tmp_path / "x.csv"), X, np.arange(5), np.arange(4))
    pd.DataFrame(X, index=GENES).to_csv(tmp_path / "y.csv")
    assert_table(read(tmp_path / "y.csv"), X, GENES, np.arange(4))


def test_axes_of_numbers_under_a_word_are_not_data(tmp_path):
    data = read(write(tmp_path, "mz,0.5,1.0\n200,1,2\n201,3,4\n"))
    assert_table(data, [[1, 2], [3, 4]], [200, 201], [0.5, 1.0])
    assert data.rows.name == "mz"
    assert data.rows.values.dtype.kind == "i"


def test_a_header_one_cell_short_is_that_of_r(tmp_path):
    path = write(tmp_path, '"a" "b"\n"g 1" 1 2\n"g 2" 3 4\n', "x.txt")
    assert_table(read(path), [[1, 2], [3, 4]], ["g 1", "g 2"], ["a", "b"])


def test_header_decides_where_the_table_does_not_say(tmp_path):
    path = write(tmp_path, "gene,0,5\ng1,1,2\ng2,3,4\n")
    assert_table(read(path), [[0, 5], [1, 2], [3, 4]], ["gene", "g1", "g2"], [0, 1])
    assert_table(read(path, header=True), [[1, 2], [3, 4]], ["g1", "g2"], [0, 5])
    plain = write(tmp_path, "1,2\n3,4\n", "plain.csv")
    assert_table(read(plain, header=True), [[3, 4]], [0], [1, 2])


def test_names_that_look_like_grouped_digits_stay_names(tmp_path):
    data = read(write(tmp_path, ",s1,s2\n1_1,1,2\n1_2,3,4\n"))
    assert_table(data, [[1, 2], [3, 4]], ["1_1", "1_2"], ["s1", "s2"])


def test_line_ends_blank_lines_and_byte_order_marks_do_not_matter(tmp_path):
    path = write(tmp_path, "\ufeffa,b\r\n1,2\r\n\r\n3,4\r\n\r\n")
    assert_table(read(path), [[1, 2], [3, 4]], [0, 1], ["a", "b"])
    path = write(tmp_path, "  1   2 \n 3 4\n", "x.txt")
    assert_table(read(path), [[1, 2], [3, 4]], [0, 1], [0, 1])


def test_a_single_column(tmp_path):
    assert_table(read(write(tmp_path, "a\n1\n2\n")), [[1], [2]], [0, 1], ["a"])
    assert_table(read(write(tmp_path, "1\n2\n")), [[1], [2]], [0, 1], [0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2,3\n4,x,6\n", "line 2, column 2: 'x' is not a number"),
        ("1,x,3\n4,5,6\n7,8,9\n", "line 1, column 2: 'x' is not a number"),
        ("1,2\n3,4\nx,5\n6,7\n8,9\n", "line 3, column 1: 'x' is not a number"),
        ("a,b\n1,2\n3,4,5\n", "3 cells in line 3 where the lines before have 2"),
        ("a,b\n1,2\n3\n", "1 cells in line 3 where the lines before have 2"),
        ("1,2\n3,4,5\n6,7,8\n", "3 cells in line 2 where the lines before have 2"),
        ("a,b,c,d\n1,2\n", "4 cells in its header where the lines below have 2"),
        ("a;b\n1;2\nx;2,5\n1;2\n", "line 3, column 1: 'x' is not a number"),
        ("a,b,c\n", "a header and no lines of numbers"),
        ("\n\n", "no lines with numbers"),
        ("# only a comment\n", "no lines with numbers"),
    ],
)
def test_a_bad_cell_or_line_is_named(tmp_path, refused, text, words):
    refused(write(tmp_path, text), words)


@pytest.mark.parametrize("cell", ["", "NA", "n/a", "NaN", "null", "-"])
def test_empty_cells_and_words_for_nothing_are_missing(tmp_path, cell):
    data = read(write(tmp_path, f",a,b,c\nr,1,2,3\ns,{cell},5,6\nt,7,8,{cell}\n"))
    expected = [[1, 2, 3], [np.nan, 5, 6], [7, 8, np.nan]]
    assert_table(data, expected, ["r", "s", "t"], ["a", "b", "c"])
    data = read(write(tmp_path, f"1,5\t2\n3\t{cell}\n", "x.tsv"))
    np.testing.assert_array_equal(data.X, [[1.5, 2], [3, np.nan]])


def test_a_line_far_down_is_named(tmp_path, refused):
    refused(write(tmp_path, "1,2\n" * 400 + "3\n" + "1,2\n"), "1 cells in line 401")


def test_other_encodings_are_refused(tmp_path, refused):
    path = tmp_path / "x.csv"
    path.write_bytes("gène,b\n1,2\n".encode("latin-1"))
    refused(path, "not text in UTF-8")


def test_an_archive_cut_short_is_refused(tmp_path, refused, cut):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"1,2\n3,4\n" * 1000))
    assert read(path).X.shape == (2000, 2)
    refused(cut(path))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "txt"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("quoted", [False, True])
def test_lines_may_be_longer_than_a_cell_can_be(tmp_path, rng, suffix, delimiter, quoted):
    if suffix == "tsv" and delimiter != "\t":
        pytest.skip("a .tsv has tabs")
    X = rng.random((3, 20_000)).round(5)
    mark = '"' if quoted else ""
    names = delimiter.join(f"{mark}name{j}{mark}" for j in range(20_000))
    lines = [names, *(delimiter.join(map(str, row)) for row in X.tolist())]
    assert max(map(len, lines)) > 131_072
    path = tmp_path / f"wide.{suffix}"
    path.write_text("\n".join(lines))
    data = read(path)
    np.testing.assert_array_equal(data.X, X)
    assert data.columns.values[-1] == "name19999"


@pytest.mark.parametrize("cell", ["1_000", "1_0.5", "1e1_0", "_1", "1_"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", " "])
def test_a_number_has_no_underscore(tmp_path, refused, cell, delimiter):
    path = tmp_path / "x.txt"
    path.write_text(f"1{delimiter}2\n3{delimiter}{cell}\n")
    refused(path, f"line 2, column 2: {cell!r} is not a number", header=False)


@pytest.mark.parametrize(
    ("text", "X"),
    [
        ("a;b\n1,5;2\n3,5;4\n", [[1.5, 2], [3.5, 4]]),
        ("a;b\n2;1,5\n4;3,25e1\n", [[2, 1.5], [4, 32.5]]),
        ("1,5;2,5\n3,5;4,5\n", [[1.5, 2.5], [3.5, 4.5]]),
        ("a;b\n1.234;2,5\n1.234.567,5;0\n", [[1234, 2.5], [1234567.5, 0]]),
        ("a;b\n0,123;1\n,5;2\n", [[0.123, 1], [0.5, 2]]),
        ('a,b\n"1,000",2.5\n"2,000",3\n', [[1000, 2.5], [2000, 3]]),
        ('a,b\n"1,000,000",2\n3,"4,000"\n', [[1e6, 2], [3, 4000]]),
        ("a\tb\n1'000\t2.5\n1\u202f234\u202f567\t3\n", [[1000, 2.5], [1234567, 3]]),
        ("a;b\n1\u00a0000;2\n3\u00a0000;4\n", [[1000, 2], [3000, 4]]),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_consistent_notation_of_numbers_is_read_in_any_column(tmp_path, text, X, swapped):
    columns = ["a", "b"] if text.startswith("a") else [0, 1]
    if swapped:
        mark = next(mark for mark in "\t;," if mark in text)
        lines = [next(csv.reader([line], delimiter=mark)) for line in text.splitlines()]
        text = "".join(mark.join(f'"{cell}"' for cell in line[::-1]) + "\n" for line in lines)
        columns = columns[::-1] if columns[0] == "a" else columns
    data = read(write(tmp_path, text))
    assert_table(data, np.array(X)[:, ::-1] if swapped else X, [0, 1], columns)
    assert "were read as" in data.description


def test_a_number_that_can_be_read_in_two_ways_is_asked_about(tmp_path, refused):
    path = write(tmp_path, 'a,b,c\n"1,000",2,3\n"2,500",5,6\n')
    refused(path, "has '1,000', which is 1000 or 1: say which with decimal='.' or decimal=','")
    assert_table(read(path, decimal="."), [[1000, 2, 3], [2500, 5, 6]], [0, 1], list("abc"))
    assert_table(read(path, decimal=","), [[1, 2, 3], [2.5, 5, 6]], [0, 1], list("abc"))
    with pytest.raises(ValueError, match="decimal='x' is not a decimal sign: write"):
        read(path, decimal="x")


def test_two_notations_in_one_table_are_refused(tmp_path, refused):
    refused(write(tmp_path, "a;b\n1,5;2.5\n"), "'2.5' and '1,5'", "with a decimal point")
    late = write(tmp_path, "1;2\n" * 50 + "1,5;2\n")
    refused(late, "line 51, column 1: '1,5' is not a number", "decimal=','")
    assert read(late, decimal=",").X[50, 0] == 1.5


@pytest.mark.parametrize("cell", ["10%", "10 %", "$5", "3,50 €", "1 000"])
def test_a_first_column_of_quantities_does_not_become_names(tmp_path, refused, cell):
    path = write(tmp_path, f"a;b;c\n{cell};2;3\n{cell};5;6\n")
    refused(path, f"line 2, column 1: {cell!r} is not a number", "if this column names the rows")
    named = write(tmp_path, f";b;c\n{cell};2;3\n{cell};5;6\n")
    assert_table(read(named), [[2, 3], [5, 6]], [cell, cell], ["b", "c"])


def test_names_that_look_like_numbers_of_another_notation_stay_names(tmp_path):
    data = read(write(tmp_path, ';b;c\n"1,5";2.5;3\n"2,5";5;6\n'))
    assert_table(data, [[2.5, 3], [5, 6]], ["1,5", "2,5"], ["b", "c"])
    data = read(write(tmp_path, "gene,10%,50%\nTP53,1,2\nMYC,3,4\n"))
    assert_table(data, [[1, 2], [3, 4]], ["TP53", "MYC"], ["10%", "50%"])
    data = read(write(tmp_path, "enzyme,a\n1.1.1.1,1\n2.7.11.1,2\n"))
    assert_table(data, [[1], [2]], ["1.1.1.1", "2.7.11.1"], ["a"])


def test_axes_with_decimal_commas_are_numbers(tmp_path):
    data = read(write(tmp_path, "mz;0,5;1,0\n200,5;1,5;2\n201,5;3;4\n"))
    assert_table(data, [[1.5, 2], [3, 4]], [200.5, 201.5], [0.5, 1.0])
