"""Tables of the pages that come from stored benchmarks are those of the stored benchmarks."""

from pathlib import Path

import pytest

from benchmarks import path, rank_choice
from benchmarks.common import load

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("table", [rank_choice.table, rank_choice.confidence_table])
def test_tables_of_criteria_are_the_stored_ones(table):
    assert table() in (DOCS / "choosing.md").read_text(encoding="utf-8")


def test_table_of_the_path_is_the_stored_one():
    assert path.table(load("path")["rows"]) in (DOCS / "benchmarks.md").read_text(encoding="utf-8")


def test_path_keeps_what_is_asked_of_it():
    """Errors against the best of three separate fits, and the share of their time."""
    rows = load("path")["rows"]
    assert sum(row["n_max"] for row in rows) == 119
    assert all(row["share not above"] >= 0.95 for row in rows)
    assert all(row["seconds"] <= 0.4 * row["separate seconds"] for row in rows)
    better = sum(row["share better"] * row["n_max"] for row in rows)
    assert better >= 0.15 * 119
