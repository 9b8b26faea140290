"""The stages that pages show are those that a run goes through."""

import re
from pathlib import Path

import pytest

from nmfmerge import Stage, datasets, nmf_merge

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def stages():
    X = datasets.lcms_like(n_mz=200, n_scans=300, n_compounds=12, random_state=1).X
    return nmf_merge(X, 12).stages


def test_the_printed_result_has_the_stages_of_a_run(stages):
    text = (DOCS / "start.md").read_text(encoding="utf-8")
    shown = re.findall(r"^  (\w+) +(\d+) components +\d+ iterations", text, re.MULTILINE)
    assert shown == [(stage.name, str(stage.n_components)) for stage in stages]


def test_the_method_lists_the_stages_of_a_run(stages):
    text = (DOCS / "method.md").read_text(encoding="utf-8")
    table = text.partition("| stage | components | what happens |\n|---|---|---|\n")[2]
    shown = re.findall(r"^\| (\w+) \|", table.partition("\n\n")[0], re.MULTILINE)
    assert shown == [stage.name for stage in stages]


def test_the_docstring_of_a_stage_names_the_stages_of_a_run(stages):
    names = re.search(r"name : str\n(.*?)\n    n_components", Stage.__doc__, re.DOTALL)[1]
    assert re.findall(r'"(\w+)"', names) == [stage.name for stage in stages]
