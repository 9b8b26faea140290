"""The pages of the fields do as they say: Python and commands, in order, in an empty folder."""

import re
import shlex
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest

from nmfmerge.cli import main

FOLDER = Path(__file__).parents[2] / "docs" / "fields"
FENCE = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
YOURS = "filtered_feature_bc_matrix"  # files that only the user has


PAGES = ["single-cell", "imaging", "hyperspectral", "text"]


@pytest.mark.parametrize("page", PAGES)
def test_no_line_of_code_is_cut_off(page):
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    for _, code in FENCE.findall(text):
        assert max(map(len, code.splitlines())) <= 88  # what the page shows at 1280 pixels


@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs_as_it_stands(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    namespace = {}
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scanpy has many
        for i, (language, code) in enumerate(FENCE.findall(text)):
            if language == "python":
                exec(compile(code, f"{page}.md, snippet {i}", "exec"), namespace)
                continue
            for line in code.splitlines():
                words = shlex.split(line, comments=True)
                if words[0] == "nmfmerge" and YOURS not in line:
                    report = [] if words[1] == "info" else ["--no-report"]
                    assert main([*words[1:], *report]) == 0
    mpl.pyplot.close("all")
