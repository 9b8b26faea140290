import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pytest

from nmfmerge.io import read

GENES = ["TP53", "MYC", "=KRAS", "EGFR", "ALK"]
CELLS = ["c1", "c2", "c3", "c4"]


def assert_table(data, X, rows, columns):
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.rows.values, rows)
    np.testing.assert_array_equal(data.columns.values, columns)


@pytest.fixture
def table(X):
    return pd.DataFrame(X + 0.1, index=pd.Index(GENES, name="gene"), columns=CELLS)


@pytest.mark.parametrize("name", ["x.xlsx", "x.XLSX", "x.xlsm"])
@pytest.mark.parametrize("transpose", [False, True])
def test_a_sheet_of_pandas_comes_back_with_its_names(tmp_path, table, name, transpose):
    with pd.ExcelWriter(tmp_path / name, engine="openpyxl") as book:
        table.rename(index={"=KRAS": "KRAS"}).to_excel(book)
    data = read(tmp_path / name, transpose=transpose)
    genes = ["TP53", "MYC", "KRAS", "EGFR", "ALK"]
    X = table.to_numpy()
    if transpose:
        assert_table(data, X.T, CELLS, genes)
    else:
        assert_table(data, X, genes, CELLS)
        assert data.rows.name == "gene"
    assert data.name == "x"


def test_numbers_without_names_are_numbered(tmp_path, X):
    pd.DataFrame(X).to_excel(tmp_path / "x.xlsx", header=False, index=False)
    assert_table(read(tmp_path / "x.xlsx"), X, np.arange(5), np.arange(4))


def test_header_decides_where_the_table_does_not_say(tmp_path):
    pd.DataFrame([[1, 2], [3, 4]]).to_excel(tmp_path / "x.xlsx", header=False, index=False)
    assert_table(read(tmp_path / "x.xlsx", header=True), [[3, 4]], [0], [1, 2])


def test_one_of_several_sheets_is_chosen(tmp_path, table, refused):
    with pd.ExcelWriter(tmp_path / "x.xlsx") as book:
        table.to_excel(book, sheet_name="counts")
        (2 * table).to_excel(book, sheet_name="twice")
    np.testing.assert_allclose(read(tmp_path / "x.xlsx", variable="twice").X, 2 * table.to_numpy())
    refused(tmp_path / "x.xlsx", "choose one with variable=; it has 'counts', 'twice'")
    refused(tmp_path / "x.xlsx", "no array 'third'", variable="third")


def test_blank_lines_and_cells_around_the_table_do_not_matter(tmp_path):
    book = openpyxl.Workbook()
    for line in (["gene", "a", "b", None], [], ["x", 1, 2, " "], ["y", 3, 4.5], [None, None]):
        book.active.append(line)
    book.save(tmp_path / "x.xlsx")
    assert_table(read(tmp_path / "x.xlsx"), [[1, 2], [3, 4.5]], ["x", "y"], ["a", "b"])


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([["a", "b"], [1, None], [2, 3]], "2 cells in line 3 where the lines before have 1"),
        ([["a", "b"], [1, 2], [3, "x"]], "line 3, column 2: 'x' is not a number"),
        ([["a", "b"], [1, "#DIV/0!"]], "line 2, column 2: '#DIV/0!' is not a number"),
        ([["a", "b"]], "a header and no lines of numbers"),
        ([], "no lines with numbers"),
    ],
)
def test_what_is_no_matrix_is_refused(tmp_path, refused, lines, words):
    book = openpyxl.Workbook()
    for line in lines:
        book.active.append(line)
    book.save(tmp_path / "x.xlsx")
    refused(tmp_path / "x.xlsx", words)


def test_empty_cells_are_missing(tmp_path):
    book = openpyxl.Workbook()
    for line in [["a", "b", "c"], [1, None, 3], [4, 5, 6]]:
        book.active.append(line)
    book.save(tmp_path / "x.xlsx")
    np.testing.assert_array_equal(read(tmp_path / "x.xlsx").X, [[1, np.nan, 3], [4, 5, 6]])


def test_a_file_cut_short_or_of_another_kind_is_refused(tmp_path, table, refused, cut):
    table.to_excel(tmp_path / "x.xlsx")
    refused(cut(tmp_path / "x.xlsx"), "cannot be read as excel")
    (tmp_path / "y.xlsx").write_text("a,b\n1,2\n")
    refused(tmp_path / "y.xlsx", "cannot be read as excel")


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path, table, refused):
    table.to_excel(tmp_path / "x.xlsx")
    with zipfile.ZipFile(tmp_path / "x.xlsx", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.xml", b"0" * 10**7)
    refused(tmp_path / "x.xlsx", "of memory and the limit is", max_memory="20MB")


def change(path, part, old, new):
    """Change the text of a part of a workbook."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    assert old in parts[part]
    parts[part] = parts[part].replace(old, new)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def test_a_damaged_number_of_a_line_is_not_counted_up_to(tmp_path, table, refused):
    table.to_excel(tmp_path / "x.xlsx")
    sheet = "xl/worksheets/sheet1.xml"
    change(tmp_path / "x.xlsx", sheet, b'<row r="6"', b'<row r="60000000000"')
    refused(tmp_path / "x.xlsx", "a line after line 1048576")


def test_what_the_library_prints_is_not_in_the_output(tmp_path, table, refused, capsys):
    table.to_excel(tmp_path / "x.xlsx")
    refused(change(tmp_path / "x.xlsx", "xl/styles.xml", b'xfId="0"', b'xfId="7"'))
    assert capsys.readouterr().out == ""


def test_without_openpyxl_the_command_is_given(tmp_path, table, needs):
    table.to_excel(tmp_path / "x.xlsx")
    assert needs(tmp_path / "x.xlsx", "openpyxl", "openpyxl", "tables").startswith("reading .xlsx")
