"""The pages, without Sphinx: public names are listed, links lead somewhere, snippets run."""

import re
from pathlib import Path

import matplotlib as mpl
import pytest

import nmfmerge
from nmfmerge import editor, export, io, jobs, plot, report

ROOT = Path(__file__).parents[2]
FIELDS = sorted((ROOT / "docs" / "fields").glob("*.md"))
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *FIELDS]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def _snippets(page):
    return FENCE.findall(page.read_text(encoding="utf-8"))


def _without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def _name(page):
    return f"{page.parent.name}/{page.name}"


def test_every_public_name_is_in_the_api_page():
    names = {name for name in nmfmerge.__all__ if name not in ("datasets", "metrics")}
    names |= {f"datasets.{name}" for name in nmfmerge.datasets.__all__}
    names |= {
        f"metrics.{name}"
        for name, value in vars(nmfmerge.metrics).items()
        if callable(value)
        and not name.startswith("_")
        and value.__module__ == nmfmerge.metrics.__name__
        and not isinstance(value, type)
    }
    for module in (editor, export, io, jobs, plot, report):
        short = module.__name__.removeprefix("nmfmerge.")
        tables = ("EXPORTS", "FORMATS", "Editor")
        names |= {f"{short}.{name}" for name in module.__all__ if name not in tables}
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   ([\w.]+)$", text, re.MULTILINE))
    assert names == listed


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=_name)
def test_local_links_lead_to_files(page):
    for link in LINK.findall(_without_code(page.read_text(encoding="utf-8"))):
        if "://" in link or link.startswith(("#", "mailto:")):
            continue
        target = _source(page.parent / link.split("#")[0])
        assert target.exists(), f"{page.name} links to {link}, which does not exist"


def _source(target):
    """The file that a page of the gallery is made from; other files are themselves."""
    if target.parent.name != "auto_examples":
        return target
    name = "GALLERY_HEADER.rst" if target.stem == "index" else f"{target.stem}.py"
    return ROOT / "docs" / "gallery" / name


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_anchors_exist(page):
    for link in LINK.findall(_without_code(page.read_text(encoding="utf-8"))):
        file, _, anchor = link.partition("#")
        if "://" in link or not anchor or not file.endswith(".md"):
            continue
        text = _without_code((page.parent / file).read_text(encoding="utf-8"))
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        slugs = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
        assert anchor in slugs, f"{page.name} links to {link}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_snippets_compile(page):
    for i, snippet in enumerate(_snippets(page)):
        compile(snippet, f"{page.name}, snippet {i}", "exec")


def test_the_lines_of_the_readme_run():
    (snippet,) = _snippets(ROOT / "README.md")
    names = {}
    exec(snippet, names)
    assert names["result"].fitting_error < 0.2
    assert names["W"].shape[1] == len(names["H"]) == 17


WIDTH = 79  # characters of code that a page shows at 1280 pixels without a scroll bar


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_code_is_not_cut_off(page):
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:python|bash)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for line in "".join(blocks).splitlines():
        assert len(line) <= WIDTH, f"{page.name}: {line}"


def test_code_of_the_gallery_is_not_cut_off():
    for example in (ROOT / "docs" / "gallery").glob("plot_*.py"):
        code = example.read_text(encoding="utf-8").split('"""', 2)[2]
        for line in code.splitlines():
            assert len(line) <= WIDTH or line.startswith("#"), f"{example.name}: {line}"


def test_the_pages_of_the_fields_have_the_same_headings():
    for page in FIELDS:
        if page.name != "index.md":
            text = _without_code(page.read_text(encoding="utf-8"))
            assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
                "A file to try it with",
                "On the command line",
                "What comes out",
                "In Python",
                "What to be careful about",
            ], page.name


@pytest.mark.parametrize("page", ["start.md", "from-scikit-learn.md", "consensus.md", "missing.md"])
def test_snippets_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    namespace = {}
    for i, snippet in enumerate(_snippets(ROOT / "docs" / page)):
        exec(compile(snippet, f"{page}, snippet {i}", "exec"), namespace)


def test_gallery_examples_open_with_a_title_and_a_question():
    examples = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))
    assert len(examples) >= 6
    for example in examples:
        header = example.read_text(encoding="utf-8").split('"""')[1].strip().splitlines()
        assert set(header[1]) == {"="}, example.name
        assert len(header[1]) == len(header[0]), example.name
        assert "?**" in "".join(header), example.name
