import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from nmfmerge import datasets, nmf, nmf_merge, plot
from nmfmerge.cli.common import pages
from nmfmerge.datasets import Axis, Dataset
from nmfmerge.folder import Fit
from nmfmerge.report import page, stability, warnings_of

VOID = {"meta", "img", "br", "hr", "link", "input"}
SECTIONS = [
    "short", "summary", "starts", "components", "fit", "convergence", "merges", "gain", "care",
    "repeat",
]  # fmt: skip


class Reader(HTMLParser):
    """Collects tags and texts, and checks that tags are balanced."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.text = [], [], {}
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop()[0] == tag

    def handle_data(self, text):
        section = next((a["id"] for tag, a in self.open if tag == "section"), "")
        self.text[section] = self.text.get(section, "") + text

    def of(self, name):
        return [attrs for tag, attrs in self.tags if tag == name]


@pytest.fixture(scope="module")
def read(html):
    return Reader(html)


def test_sections_are_there_in_order_and_in_the_contents(read):
    assert [attrs["id"] for attrs in read.of("section")] == SECTIONS
    assert [attrs["href"] for attrs in read.of("a")] == [f"#{name}" for name in SECTIONS]
    assert read.of("html") == [{"lang": "en"}]
    assert len(read.of("title")) == len(read.of("h1")) == 1
    assert len(read.of("h2")) == len(SECTIONS)


def test_ids_are_unique_and_figures_have_words(read):
    ids = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert len(read.of("img")) == 7
    assert all(len(attrs["alt"]) > 20 for attrs in read.of("img"))
    assert not read.of("svg")
    assert not read.of("script")


def test_nothing_is_loaded_from_elsewhere(html, read):
    for _, attrs in read.tags:
        for name in ("src", "href"):
            assert attrs.get(name, "#").startswith(("#", "data:image/"))
    assert not re.search(r"url\(|@import|https?://", re.sub(r'src="data:[^"]*"', "", html))


def test_text_of_the_user_is_escaped(html):
    assert "<script" not in html
    assert "runs/&lt;script&gt;alert(1)&lt;/script&gt;.csv" in html
    assert "&lt;were&gt;" in html
    assert "a &amp; b.csv" in html
    data = Dataset(
        '"><img src=x>', None, None,
        Axis("<b>row</b>", np.array(["<i>a</i>", '"b"', "c & d"])), Axis("$x_$", np.arange(3)),
    )  # fmt: skip
    text = page(
        nmf(np.eye(3) + 1, 1), data, {"title": "</title><script>", "settings": {"<u>": "<s>"}}
    )
    Reader(text)
    for raw in ("<b>", "<i>", "<u>", "<s>", "<img src=x", "<script"):
        assert raw not in text


def test_summary_has_settings_stages_and_the_error(fitted, read):
    _, result = fitted
    assert f"{result.fitting_error:.4g} %" in read.text["short"]
    text = read.text["summary"]
    assert "60 × 90" in text
    for word in ("hals", "nndsvd", "initial", "overcomplete", "converged", "m/z", "scan"):
        assert word in text
    for stage in result.stages:
        assert f"{stage.fitting_error:.4g} %" in text


def test_component_table_has_the_peaks(fitted, html):
    data, result = fitted
    section = html[html.index('<section id="components"') : html.index('<section id="fit"')]
    rows = re.findall(r"<tr>(<td.*?)</tr>", section)
    assert len(rows) == 5
    for row in rows:
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row)
        k = int(cells[0]) - 1
        assert float(cells[2]) == data.rows.values[np.argmax(result.W[:, k])]
        assert float(cells[3]) == data.columns.values[np.argmax(result.H[k])]
        assert cells[4] == f"{100 * np.mean(result.W[:, k] == 0):.0f} %"


def test_the_starts_have_a_sentence_a_figure_and_a_table(fitted, read, html):
    _, result = fitted
    text = read.text["starts"]
    assert stability.lead(result) in text
    assert f"start {result.best_start + 1} ({result.starts[result.best_start].name})" in text
    section = html[html.index('<section id="starts"') : html.index('<section id="components"')]
    assert section.count("<figure") == 1
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in section.split("<tr>")[2:]]
    assert len(rows) == len(result.starts) == 4
    for i, (cells, start) in enumerate(zip(rows, result.starts, strict=True)):
        best = ", the best" if i == result.best_start else ""
        seed = "–" if start.seed is None else str(start.seed)
        assert cells[:4] == [f"{i + 1}{best}", start.init, seed, f"{start.fitting_error:.6g} %"]
        assert cells[5] == f"{start.n_found} of 5"
    assert "best start" in read.text["summary"]
    assert "bands" in read.text["components"]


def test_one_start_has_no_section_of_starts_and_no_bands(fitted):
    data, _ = fitted
    read = Reader(page(nmf_merge(data.X, 5, n_init=1), data))
    assert "starts" not in [attrs["id"] for attrs in read.of("section")]
    assert "bands" not in read.text["components"]
    assert "best start" not in read.text["summary"] + read.text["convergence"]


def test_merges_are_told_in_words(fitted, read):
    _, result = fitted
    assert result.merges.n_leaves == 6
    assert "From 6 components, after 1 component had been recovered" in read.text["merges"]
    assert "Component 5 was made of" in read.text["merges"]
    assert "The next merge, of components" in read.text["merges"]


def test_gain_counts_the_starts(read):
    assert "From 3 starts, NMF-Merge ended lower" in read.text["gain"]
    assert "points once, and higher once." in read.text["gain"]


def test_how_to_repeat_has_command_versions_and_hash(read):
    text = read.text["repeat"]
    for word in ("nmfmerge fit 'a & b.csv'", "0.1.0", "9f86d081", "2026-01-02"):
        assert word in text


def test_the_same_result_gives_the_same_page(fitted, about, html):
    data, result = fitted
    assert page(result, data, about) == html


def test_plain_nmf_without_data_and_without_words():
    text = page(nmf(np.eye(4) + 1, 2))
    read = Reader(text)
    expected = [section for section in SECTIONS if section not in ("gain", "starts")]
    assert [attrs["id"] for attrs in read.of("section")] == expected
    assert "without the matrix X" in read.text["fit"]
    assert "No components were merged" in read.text["merges"]
    assert "Nothing was recorded" in read.text["repeat"]


def test_data_known_by_their_axes_only(fitted):
    data, result = fitted
    read = Reader(page(result, replace(data, X=None), {}))
    assert "without the matrix X" in read.text["fit"]
    assert "m/z" in read.text["summary"]


def test_odd_results_have_pages_too():
    for X in (np.zeros((5, 4)), np.ones((5, 4), dtype=np.float32)):
        Reader(page(nmf(X, 1), None, {"compare": {"standard_errors": [], "merge_errors": []}}))


def test_a_page_of_the_usual_size_is_below_three_megabytes():
    data = datasets.lcms_like()
    assert len(page(nmf_merge(data.X, 17), data).encode()) < 3_000_000
    assert warnings_of(nmf_merge(data.X, 17, n_init=1), data) == []


def test_settings_have_names_and_unset_ones_are_left_out(fitted):
    data, result = fitted
    settings = {
        "n_components": 99,
        "init": "nndsvd",
        "n_init": 4,
        "max_time": None,
        "random_state": 7,
    }
    text = Reader(page(result, data, {"settings": settings})).text["summary"]
    assert "First start" in text
    assert "Starts" in text
    assert "Seed" in text
    assert "None" not in text
    assert "n_components" not in text


def test_every_figure_is_drawn_once_for_the_folder_and_the_page(fitted, monkeypatch):
    data, result = fitted
    drawn = []

    def noted(name, draw):
        return lambda *arguments: drawn.append(name) or draw(*arguments)

    for name in plot.__all__:
        monkeypatch.setattr(plot, name, noted(name, getattr(plot, name)))
    files = pages(Fit(result, data, {}))
    assert sorted(drawn) == [
        "components", "convergence", "merges", "reconstruction", "singular_values", "starts",
    ]  # fmt: skip
    assert len(files) == len(drawn) + 1
    assert files["report.html"].count("<figure") == len(drawn)
