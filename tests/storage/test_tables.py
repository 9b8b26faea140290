"""Tables of a fit in every format, read back by pandas."""

import importlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmfmerge import datasets, metrics, nmf_merge, rank_path
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.fields.table import Table
from nmfmerge.storage.result_tables import component_table, fit_tables, merge_table
from nmfmerge.storage.tables import WRITERS, TableError, check_tables, write_tables

DATA = datasets.lcms_like(30, 40, 4)
NAMES = ["=A1", "#N/A", "NULL", "Ωmega, 2", 'K"R"AS', "1_000", "café"]


def read_back(folder, name, kind, **options):
    if kind == "xlsx":
        return pd.read_excel(
            folder / "tables.xlsx",
            sheet_name=name,
            keep_default_na=False,
            na_values=[""],
            **options,
        )
    if kind == "parquet":
        return pd.read_parquet(folder / f"{name}.parquet")
    return pd.read_csv(
        folder / f"{name}.csv", keep_default_na=False, na_values=[""],
        encoding_errors="surrogateescape", float_precision="round_trip", **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def result():
    return nmf_merge(DATA.X, 4, n_init=3)


@pytest.fixture(params=WRITERS)
def kind(request):
    return request.param


def test_factors_keep_the_names_of_rows_and_columns(tmp_path, kind):
    rng = np.random.default_rng(0)
    X = rng.random((len(NAMES), 30))
    columns = Axis("time", np.arange(30) * 0.1 + 1 / 3, "s")
    data = Dataset("x", X, None, Axis("gene", np.array(NAMES)), columns)
    result = replace(nmf_merge(X, 3), names=("1", "2+3", "=glucose"))
    write_tables(tmp_path, fit_tables(result, data), kind)
    W, H = read_back(tmp_path, "W", kind), read_back(tmp_path, "H", kind)
    assert list(W["gene"]) == NAMES
    assert list(W)[1:] == list(H)[1:] == ["component 1", "component 2+3", "=glucose"]
    digits = {"csv": 1e-11, "xlsx": 1e-15}.get(kind, 0)  # which keep no more
    np.testing.assert_allclose(H["time (s)"], columns.values, rtol=digits, atol=0)
    exact = {"rtol": 1e-8} if kind == "csv" else {"rtol": 1e-15}
    np.testing.assert_allclose(W.to_numpy()[:, 1:].astype(float), result.W, **exact)
    np.testing.assert_allclose(H.to_numpy()[:, 1:], result.H.T, **exact)


def test_components_have_their_share_and_where_they_peak(tmp_path, result, kind):
    data = replace(DATA, rows=Axis("gene", np.array([f"g{i}" for i in range(30)])))
    write_tables(tmp_path, fit_tables(result, data), kind)
    table = read_back(tmp_path, "components", kind)
    assert list(table) == [
        "component", "name", "share (%)", "peak gene", "peak scan", "found from (of 3 starts)",
    ]  # fmt: skip
    assert list(table["component"]) == [1, 2, 3, 4]
    assert list(table["name"]) == [f"component {k}" for k in (1, 2, 3, 4)]
    np.testing.assert_allclose(table["share (%)"], metrics.shares(result.W, result.H), rtol=1e-8)
    assert list(table["peak gene"]) == [f"g{i}" for i in result.W.argmax(axis=0)]
    np.testing.assert_array_equal(table["peak scan"], result.H.argmax(axis=1))
    np.testing.assert_array_equal(table.iloc[:, -1], result.n_starts_found())


def test_a_component_that_is_zero_peaks_nowhere(tmp_path, result, kind):
    W = result.W.copy()
    W[:, 2] = 0
    write_tables(tmp_path, [component_table(replace(result, W=W, starts=()), DATA)], kind)
    table = read_back(tmp_path, "components", kind)
    assert np.isnan(table.iloc[2, 3])
    assert table["share (%)"][2] == 0
    assert not any(name.startswith("found from") for name in table)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("pixels", ["rows", "columns"])
def test_the_peak_of_a_picture_has_a_row_and_a_column(result, order, pixels):
    shape = (5, 6) if pixels == "rows" else (4, 10)
    n = shape[0] * shape[1]
    data = replace(
        DATA, **{pixels: Axis("pixel", np.arange(n))}, image_shape=shape, image_order=order
    )
    F = (result.W.T if pixels == "rows" else result.H).copy()
    F[1] = 0
    changed = replace(result, **({"W": F.T} if pixels == "rows" else {"H": F}))
    table = component_table(changed, data)
    columns = dict(zip(table.heads, table.columns, strict=True))
    assert "peak pixel" not in columns
    places = list(zip(columns["peak pixel row"], columns["peak pixel column"], strict=True))
    for k, (row, column) in enumerate(places):
        if k == 1:
            assert (row, column) == (None, None)
        else:
            assert data.picture(F[k])[row - 1, column - 1] == F[k].max()


def test_axes_of_one_name_are_told_apart(result):
    square = replace(DATA, rows=Axis("gene", np.arange(30)), columns=Axis("gene", np.arange(40)))
    heads = component_table(result, square).heads
    assert heads[3:5] == ["peak gene, of rows", "peak gene, of columns"]


def test_merges_are_in_percent_and_as_they_are(tmp_path, result, kind):
    write_tables(tmp_path, fit_tables(result, DATA), kind)
    table = read_back(tmp_path, "merges", kind)
    assert list(table) == ["first", "second", "penalty (% of ‖WH‖²)", "penalty"]
    np.testing.assert_array_equal(table[["first", "second"]], result.merges.pairs + 1)
    np.testing.assert_allclose(table["penalty"], result.merges.penalties, rtol=1e-8)
    size2 = np.linalg.norm(result.W @ result.H) ** 2
    percent = 100 * result.merges.penalties / size2
    np.testing.assert_allclose(table["penalty (% of ‖WH‖²)"], percent, rtol=1e-8)


def test_merges_of_factors_without_a_size_have_no_percent(result):
    for W in (0 * result.W, 1e200 * result.W):
        table = merge_table(replace(result, W=W, H=result.H * (1e200 if W.any() else 1)))
        assert np.isnan(table.columns[2]).all()


def test_starts_and_ranks_are_tables_with_missing_values(tmp_path, result, kind):
    path = rank_path(DATA.X, 4)
    write_tables(tmp_path, fit_tables(result, DATA, path), kind)
    starts, ranks = read_back(tmp_path, "starts", kind), read_back(tmp_path, "path", kind)
    assert list(starts["init"]) == ["nndsvd", "random", "random"]
    assert np.isnan(starts["seed"][0])
    assert [int(seed) for seed in starts["seed"][1:]] == [s.seed for s in result.starts[1:]]
    assert list(ranks["rank"]) == [1, 2, 3, 4]
    assert np.isnan(ranks["merge penalty (%)"][0])
    np.testing.assert_allclose(ranks["fitting error (%)"], path.fitting_errors, rtol=1e-8)


def test_a_workbook_has_a_sheet_for_each_table(tmp_path, result):
    write_tables(tmp_path, fit_tables(result, DATA), "xlsx")
    assert [file.name for file in tmp_path.iterdir()] == ["tables.xlsx"]
    with pd.ExcelFile(tmp_path / "tables.xlsx") as book:
        assert book.sheet_names == ["W", "H", "components", "peaks", "starts", "merges"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text(st.characters(codec=None), max_size=6), min_size=1, max_size=8),
    st.lists(st.one_of(st.none(), st.integers(), st.floats()), min_size=8, max_size=8),
    st.sampled_from(list(WRITERS)),
)
def test_any_names_and_numbers_can_be_written(tmp_path_factory, names, numbers, kind):
    folder = tmp_path_factory.mktemp("tables")
    numbers = numbers[: len(names)]
    table = Table("x", ["name", "name", "a\ud800b"], [names, numbers, np.zeros(len(names))])
    write_tables(folder, [table], kind)
    if kind != "csv":  # pandas reads other line ends than csv writes
        found = read_back(folder, "x", kind)
        assert len(found) == len(names)
        assert len(set(found)) == 3


def test_numbers_that_are_names_have_no_digits_of_rounding(tmp_path):
    times = [60 * 6.521416666666666, 0.1 + 0.2, 200.0, float("nan"), 1e-300]
    assert repr(times[0]) == "391.28499999999997"
    write_tables(tmp_path, [Table("x", ["time"], [times])])
    lines = (tmp_path / "x.csv").read_text().splitlines()
    assert lines == ["time", "391.285", "0.3", "200", '""', "1e-300"]


def test_whole_numbers_of_any_size_keep_their_digits(tmp_path, kind):
    seeds = [3, 2**70 + 1, None]
    write_tables(tmp_path, [Table("x", ["seed"], [seeds])], kind)
    options = {"dtype": str} if kind == "csv" else {}
    found = read_back(tmp_path, "x", kind, **options)
    assert [str(seed) for seed in found["seed"][:2]] == ["3", str(2**70 + 1)]


@pytest.mark.parametrize("n", [4095, 4096, 4097, 9000])
def test_long_tables_are_whole(tmp_path, kind, n):
    numbers = np.random.default_rng(0).random(n)
    write_tables(tmp_path, [Table("x", ["line", "number"], [list(range(n)), numbers])], kind)
    found = read_back(tmp_path, "x", kind)
    np.testing.assert_array_equal(found["line"], np.arange(n))
    np.testing.assert_allclose(found["number"], numbers, rtol=1e-8)


def test_columns_of_a_table_are_of_one_length():
    with pytest.raises(ValueError, match=r"'x' has 2 heads and 2 columns of lengths \[1, 2\]"):
        Table("x", ["a", "b"], [[1], [1, 2]])
    with pytest.raises(ValueError, match="1 heads and 2 columns"):
        Table("x", ["a"], [[1], [1]])


def test_what_a_sheet_cannot_hold_is_refused_before_it_is_made():
    check_tables("csv", 10**6)
    check_tables("parquet", 10**6)
    check_tables("xlsx", 16_384)
    with pytest.raises(TableError, match=r"tables='xlsx' cannot hold 16385 .* parquet or csv"):
        check_tables("xlsx", 16_385)
    with pytest.raises(TableError, match=r"tables='ods' is not known: choose from csv, parquet"):
        check_tables("ods", 2)


@pytest.mark.parametrize("n", [0, 1, 10, 11, 30, 31])
def test_a_table_longer_than_a_sheet_goes_on_in_the_next(tmp_path, monkeypatch, n):
    monkeypatch.setattr("nmfmerge.storage.tables._MOST_LINES", 10)
    write_tables(tmp_path, [Table("x", ["line"], [list(range(n))])], "xlsx")
    sheets = pd.read_excel(tmp_path / "tables.xlsx", sheet_name=None)
    assert list(sheets) == ["x", "x (2)", "x (3)", "x (4)"][: max(1, -(-n // 10))]
    lines = [line for sheet in sheets.values() for line in sheet["line"]]
    assert lines == list(range(n))
    assert all(len(sheet) <= 10 for sheet in sheets.values())


@pytest.mark.parametrize(("kind", "module"), [("parquet", "pyarrow"), ("xlsx", "openpyxl")])
def test_a_missing_library_is_named(monkeypatch, kind, module):
    def import_module(name, *rest):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", import_module)
    with pytest.raises(TableError, match=rf'needs {module}: pip install "nmfmerge\[tables\]"'):
        check_tables(kind, 2)
