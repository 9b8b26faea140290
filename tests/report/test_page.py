import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from nmfmerge import datasets, metrics, nmf, nmf_merge, plot
from nmfmerge.cli.common import pages
from nmfmerge.datasets import Axis, Dataset
from nmfmerge.report import page, stability, warnings_of
from nmfmerge.report.figures import draw
from nmfmerge.report.svg import inline
from nmfmerge.storage.folder import Fit

VOID = {"meta", "img", "br", "hr", "link", "input"}
OURS = re.compile(r"<script>.*?</script>|<script type=\"application/json\" id=\"axes\">", re.DOTALL)
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
        self.text[section] = self.text.get(section, "") + text.replace("\u00a0", " ")

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
    charts = [attrs for attrs in read.of("svg") if attrs.get("role") == "img"]
    assert len(charts) == 6
    assert not read.of("img")
    drawings = charts + [attrs for attrs in read.of("div") if attrs.get("role") == "img"]
    assert len(drawings) == 6 + 2 * 5  # both sides of five components
    assert all(len(attrs["aria-label"]) > 20 for attrs in drawings)


def test_references_inside_figures_lead_to_ids_of_the_same_page(html, read):
    ids = {attrs["id"] for _, attrs in read.tags if "id" in attrs}
    used = re.findall(r'(?:url\(#|href="#)([\w.-]+)', html)
    assert len(used) > 20
    assert set(used) <= ids


def test_nothing_is_loaded_from_elsewhere(html, read):
    for _, attrs in read.tags:
        for name in ("src", "href"):
            assert attrs.get(name, "#").startswith(("#", "data:image/"))
    assert not re.search(r"url\((?!#)|@import|https?://|fetch\(|XMLHttp", html)


def test_text_of_the_user_is_escaped(html):
    assert "<script" not in OURS.sub("", html)
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
    text = OURS.sub("", text)
    for raw in ("<b>row", "<i>a", "<u>", "<s>", "<img src=x", "<script"):
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
    merged = result.merge_ids.index(6) + 1  # the first id after those of 6 components
    assert f"Component {merged} was made of" in read.text["merges"]
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
        return lambda *arguments, **options: drawn.append(name) or draw(*arguments, **options)

    for name in plot.__all__:
        monkeypatch.setattr(plot, name, noted(name, getattr(plot, name)))
    files = pages(Fit(result, data))
    assert sorted(drawn) == [
        "components", "convergence", "merges", "reconstruction", "singular_values", "starts",
    ]  # fmt: skip
    assert len(files) == len(drawn) + 1
    on_page = set(drawn) - {"components"}  # which the page draws itself
    assert files["report.html"].count("<figure") == len(on_page)


def paths(section):
    return re.findall(r'<path class="values" d="([^"]*)"', section)


def heights(path):
    """Where the vertices of a line are, and how high: of its steps, without those to the axis."""
    steps = np.array(re.findall(r"-?\d+", path), dtype=int).reshape(-1, 2)
    return np.cumsum(steps, axis=0)[1:-1] * [1, -1] + [0, 1000]


def test_components_are_drawn_from_their_values(fitted, html):
    data, result = fitted
    section = html[html.index('<section id="components"') : html.index('<section id="fit"')]
    assert len(paths(section)) == 2 * 5
    order = np.argsort(-metrics.shares(result.W, result.H))
    for k, path in zip(order, paths(section)[1::2], strict=True):
        x, y = heights(path).T
        h = result.H[k]
        x_of_peak = 10_000 * np.argmax(h) / (len(h) - 1)
        assert abs(x[np.argmax(y)] - x_of_peak) <= 1
        at = np.rint(x * (len(h) - 1) / 10_000).astype(int)
        np.testing.assert_allclose(y / y.max(), h[at] / h.max(), atol=2e-3)
    masses = re.findall(r'<span class="peak"[^>]*>([^<]*)<', section)
    assert f"{data.rows.values[np.argmax(result.W[:, order[0]])]:g}" in masses


@pytest.mark.parametrize("n", [24, 25, 60])
def test_every_component_is_on_the_page(rng, n):
    W, H = rng.random((30, n)), rng.random((n, 40))
    text = page(replace(nmf(W @ H, 1), W=W, H=H))
    assert sorted(int(k) for k in re.findall(r'id="component-(\d+)"', text)) == [*range(1, n + 1)]
    folded = re.search(r"<details.*?</details>", text, re.DOTALL)
    assert (folded is None) == (n == 24)
    if folded:
        assert folded[0].count("<article") == n - 24
        word = "one component" if n == 25 else f"other {n - 24} components"
        assert f"Show the {word} (" in folded[0]
    Reader(text)


def test_long_lines_keep_their_peaks_and_the_page_stays_small(rng):
    W = rng.random((100_000, 3)) * 0.1
    W[77_777, 1] = 5.0
    data = Dataset("x", None, 3, Axis("mass", np.arange(100_000) / 50), Axis("t", np.arange(5)))
    text = page(replace(nmf(np.eye(5) + 1, 3), W=W, H=rng.random((3, 5))), data)
    assert len(text) < 500_000
    tops = [heights(path) for path in paths(text)[::2]]
    peaks = [points[np.argmax(points[:, 1]), 0] for points in tops]
    assert any(abs(peak - 7778) <= 1 for peak in peaks)


def test_names_are_bars_and_pixels_are_maps(rng):
    X = rng.random((12, 6))
    names = np.array([f"gene<{i}>" for i in range(6)])
    data = Dataset("x", X, 2, Axis("pixel", np.arange(12)), Axis("gene", names), image_shape=(4, 3))
    result = nmf(X, 2)
    text = page(result, data)
    read = Reader(text)
    assert len(read.of("image")) == 2 + 3 + 2  # maps; means of X, WH and the residual; two scales
    assert text.count('<ol class="bars"') == 2
    k = int(np.argmax(metrics.shares(result.W, result.H)))
    first = names[np.argmax(result.H[k])].replace("<", "&lt;").replace(">", "&gt;")
    bars = text[text.index('<ol class="bars"') :]
    assert bars[bars.index('class="name">') :].startswith(f'class="name">{first}<')


def test_images_have_a_figure_of_maps(rng):
    X = rng.random((12, 6))
    axes = Axis("pixel", np.arange(12)), Axis("frame", np.arange(6))
    files = pages(Fit(nmf(X, 2), Dataset("x", X, 2, *axes, image_shape=(4, 3))))
    assert files["figures/maps.png"].startswith(b"\x89PNG")


def test_drawing_tells_what_is_ready(fitted):
    data, result = fitted
    drawn, written = [], []
    figures = draw(result, data, tick=drawn.append)
    assert drawn == list(figures)
    page(result, data, figures=figures, tick=written.append)
    assert set(SECTIONS) <= set(written)


def test_figures_use_the_colours_of_the_page_and_keep_their_numbers(fitted):
    _, result = fitted
    errors = replace(result.starts[1], fitting_error=result.fitting_error * 1.00012345)
    odd = replace(result, starts=(result.starts[0], errors, *result.starts[2:]))
    drawn = inline(plot.starts(odd), "starts", "Errors of starts")
    assert "+0.012 %" in drawn
    assert "#262626" not in drawn
    assert "var(--ink)" in drawn
    assert "DejaVu" not in drawn
    assert "<style" not in drawn


def test_sections_of_a_field_follow_the_first(fitted):
    data, result = fitted
    html = page(result, data, extra={"field": ("Of the field", "<p>said</p>")})
    ids = re.findall(r'<section id="([\w-]+)"', html)
    assert ids[:2] == ["short", "field"]
    assert '<a href="#field">Of the field</a>' in html
    assert "<p>said</p></section>" in html
