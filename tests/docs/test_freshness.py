"""Stored results say which code they are of, and pages say where that code has changed since."""

import re
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.common import load
from benchmarks.freshness import MEASURES, ROOT, SOURCE, is_stale, names

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def test_every_result_says_what_it_measures():
    assert {name.split("/")[0] for name in names()} == set(MEASURES)
    for parts in MEASURES.values():
        assert all((ROOT / SOURCE / part).exists() for part in parts)
    assert all(load(name)["environment"]["commit"] for name in names())


@pytest.mark.parametrize("name", [name for name in names() if name.count("/")])
def test_a_table_that_is_older_than_its_code_is_marked(name):
    """Where this fails: measure again, or let ``python -m benchmarks report`` mark the table."""
    if is_stale(name) is None:
        pytest.skip("Git does not know the commit of this result")
    assert report.stored(name) in PAGE.read_text(encoding="utf-8")


def test_the_page_names_the_commit_under_every_table():
    tables = re.findall(r"\|\n\n\*(.*)\*\n", PAGE.read_text(encoding="utf-8"))
    assert len(tables) > 20
    assert all(re.search(r"\d{4}-\d\d-\d\d, commit [0-9a-f]{7}", place) for place in tables)
