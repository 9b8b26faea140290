"""Every function and test that docs/equations.md names exists."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
ROWS = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| ")][1:]
CODE = re.compile(r"`([^`]+)`")


def _names(column):
    return sorted({name for row in ROWS for name in CODE.findall(row[column])})


def _exists(name):
    """Whether a dotted name leads from the package to something, through modules and classes."""
    found = import_module("nmfmerge")
    place = "nmfmerge"
    for part in name.split("."):
        place += "." + part
        try:
            found = import_module(place)
        except ModuleNotFoundError:
            found = getattr(found, part, None)
        if found is None:
            return False
    return True


@pytest.mark.parametrize("name", _names(column=2))
def test_functions_exist(name):
    assert _exists(name)


@pytest.mark.parametrize("name", ["merge.no_such_function", "no_such_module.merge"])
def test_a_name_that_leads_nowhere_is_noticed(name):
    assert not _exists(name)


@pytest.mark.parametrize("name", _names(column=3))
def test_tests_exist(name):
    files = (ROOT / "tests").rglob("test_*.py")
    assert any(f"\ndef {name}(" in file.read_text(encoding="utf-8") for file in files)


def test_every_row_has_four_columns_and_a_test():
    assert len(ROWS) > 10
    for row in ROWS:
        assert len(row) == 4, row
        assert CODE.findall(row[3]), row


@pytest.mark.parametrize("name", re.findall(r"`(\w+(?:\.\w+)+)`", PAGE.partition("\n## ")[2]))
def test_functions_in_the_text_below_exist(name):
    assert _exists(name)
