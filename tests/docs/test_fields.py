"""The pages of the fields do as they say: Python and commands, in order, in an empty folder."""

import importlib
import re
import shlex
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numba
import pytest

from nmfmerge.cli import main

FOLDER = Path(__file__).parents[2] / "docs" / "fields"
FENCE = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
YOURS = "filtered_feature_bc_matrix"  # files that only the user has
QUICK = {
    "fit": ["--no-report", "--no-compare"],
    "path": ["--no-report", "--no-stability"],
    "signatures": ["--no-report"],
}


@pytest.fixture
def _plain_umap(monkeypatch):
    """UMAP, which scanpy's neighbours need, in plain Python: it compiles a minute of kernels."""
    with warnings.catch_warnings(), monkeypatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(numba.config, "DISABLE_JIT", True)
        importlib.import_module("umap")


@pytest.fixture
def follow(tmp_path, monkeypatch, capsys, _plain_umap):
    """Does what a page says; gives its Python names and what was printed."""

    def run(page):
        namespace = {}
        text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
        for i, (language, code) in enumerate(FENCE.findall(text)):
            if language == "python":
                exec(compile(code, f"{page}.md, snippet {i}", "exec"), namespace)
            else:
                _run_commands(code)
        return namespace, capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scanpy has many
        yield run
    plt.close("all")


def _run_commands(code):
    for line in code.splitlines():
        program, *words = shlex.split(line, comments=True)
        if program == "nmfmerge" and YOURS not in line:
            assert main([*words, *QUICK.get(words[0], [])]) == 0, line
        else:
            assert program == "pip" or YOURS in line, line


def _files_of_the_fit(page):
    """Those in the first table below "What comes out", but for those that are not always there."""
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    table = text[text.index("## What comes out") :].split("\n\n")[1]
    folder = re.match(r"\| file in `(.*)` \|", table)[1]
    rows = [row for row in table.splitlines()[2:] if "only there if" not in row]
    return [Path(folder, re.match(r"\| `(.*?)`", row)[1]) for row in rows]


PAGES = sorted(page.stem for page in FOLDER.glob("*.md") if page.stem != "index")


def test_there_is_a_page_for_each_field():
    assert len(PAGES) >= 6


@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs_as_it_stands_and_leaves_what_it_says(page, follow):
    names, said = follow(page)
    files = _files_of_the_fit(page)
    assert files
    for file in files:
        assert file.exists(), file
    CHECKS.get(page, lambda names, said: None)(names, said)


def _of_sound(names, said):
    assert float(re.search(r"largest difference: (\S+)", said)[1]) < 1e-6
    assert {float(hz) for hz in re.findall(r"loudest at (\d+) Hz", said)} == {258, 323, 388}
    assert Path("stems/audio/component-03.wav").exists()


def _of_lcms(names, said):
    assert {"180.06", "260.03", "342.12"} <= set(re.findall(r"\b\d{3}\.\d\d\b", said))
    assert Path("compounds/spectra.mgf").exists()
    assert Path("run.cdf.path/path.csv").exists()


def _of_signatures(names, said):
    assert len(names["found"].names) == names["data"].n_components
    assert names["matches"]["Cosine"].min() > 0.95
    assert sorted(names["matches"]["Known signature"]) == [f"true{k}" for k in "1234"]
    assert Path("refitted/activities.tsv").exists()


def _of_programs(names, said):
    assert "5 gene programmes in 299 cells" in said
    assert names["found"].n_components == 5
    assert names["adata"].obsm["usages"].shape == (300, 5)
    written, mine = (
        {file.name for file in Path(folder).glob("cells.*")}
        for folder in ("cells.h5ad.programs", "mine")
    )
    assert written == mine


CHECKS = {
    "audio": _of_sound,
    "lcms": _of_lcms,
    "gene-programs": _of_programs,
    "signatures": _of_signatures,
}
