"""The page in a browser: widths, colour schemes, values under the pointer, the large view."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import metrics, nmf
from nmfmerge.datasets import Axis, Dataset
from nmfmerge.report import page as report_page

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on PATH")
WIDTHS = [(1280, True), (390, False), (360, False)]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def show(browser):
    """Open a page; at the end of the test, nothing may have gone wrong in it."""
    opened, wrong = [], []

    def opening(html, width=1280, scheme="light", script=True):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            java_script_enabled=script,
        )
        tab = context.new_page()
        tab.on(
            "console",
            lambda message: wrong.append(message.text) if message.type == "error" else None,
        )
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("request", lambda request: wrong.append(request.url))
        tab.set_content(html)
        wrong[:] = [what for what in wrong if not what.startswith(("data:", "about:"))]
        opened.append(context)
        return tab

    yield opening
    for context in opened:
        context.close()
    assert [what for what in wrong if not what.startswith("data:")] == []


def of_kind(kind):
    rng = np.random.default_rng(0)
    axes = {
        "sound": (Axis("frequency", np.arange(40) * 100.0, "Hz"),
                  Axis("time", np.arange(30) / 10, "s")),
        "movie": (Axis("pixel", np.arange(40)), Axis("frame", np.arange(30))),
        "text": (Axis("word", np.array([f"a rather long word {i}" * 3 for i in range(40)])),
                 Axis("document", np.array([f"document {i}" for i in range(30)]))),
        "dates": (Axis("depth", np.arange(40.0), "m"),
                  Axis("day", np.datetime64("2026-01-01") + np.arange(30))),
    }[kind]  # fmt: skip
    X = rng.random((40, 3)) @ rng.random((3, 30))
    shape = (8, 5) if kind == "movie" else None
    return report_page(nmf(X, 3), Dataset(kind, X, 3, *axes, image_shape=shape))


@pytest.fixture(scope="module")
def many():
    """Sixty components."""
    rng = np.random.default_rng(0)
    W, H = rng.random((70, 60)), rng.random((60, 80))
    return replace(nmf(W @ H, 1), W=W, H=H)


@pytest.mark.parametrize(("width", "beside"), WIDTHS)
def test_all_sections_fit_the_width(html, show, width, beside):
    check_width(show(html, width), width, sections=10)
    tab = show(html, width)
    nav, main = (tab.locator(name).bounding_box() for name in ("nav", "main"))
    assert (nav["x"] + nav["width"] < main["x"]) == beside


@pytest.mark.parametrize("kind", ["sound", "movie", "text", "dates"])
@pytest.mark.parametrize("width", [1280, 360])
def test_reports_of_every_field_fit_the_width(show, kind, width):
    check_width(show(of_kind(kind), width), width, sections=8)


def check_width(tab, width, sections):
    measured = tab.evaluate(
        """() => [document.documentElement.scrollWidth,
        [...document.querySelectorAll("section")].filter(s => s.offsetHeight > 40).length,
        [...document.querySelectorAll("main *")].filter(x => !x.closest(".wide, pre, .ticks, svg")
          && x.getBoundingClientRect().right > document.documentElement.clientWidth + 1).length]"""
    )
    assert measured == [width, sections, 0]


def brightness(colour):
    return sum(float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_follow_the_colour_scheme(html, show, scheme):
    tab = show(html, scheme=scheme)
    texts, cards, curves = tab.evaluate(
        """() => [
          [...document.querySelectorAll(".chart text")].map(x => getComputedStyle(x).fill),
          [...document.querySelectorAll(".card")].map(x => getComputedStyle(x).backgroundColor),
          [...document.querySelectorAll(".peak, .ticks, .strip")]
            .map(x => getComputedStyle(x).color)]"""
    )
    assert len(texts) > 50
    assert len(cards) == 6
    light = scheme == "light"
    on_blue = [text for text in texts if brightness(text) > 240]  # inside dark cells
    assert len(on_blue) < 10
    assert all((brightness(text) < 140) == light for text in texts if text not in on_blue)
    assert all((brightness(card) > 240) == light for card in cards)
    assert all((brightness(curve) < 140) == light for curve in curves)
    body = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (brightness(body) > 230) == light


def test_all_of_sixty_components_can_be_reached(many, show):
    tab = show(report_page(many))
    articles = tab.locator("article.component")
    assert articles.count() == 60
    assert sum(article.is_visible() for article in articles.all()) == 24
    tab.locator("details.more > summary").click()
    assert all(article.is_visible() for article in articles.all())


def test_a_link_opens_the_group_of_a_component(many, show):
    tab = show(report_page(many))
    last = int(np.argmin(metrics.shares(many.W, many.H))) + 1
    tab.evaluate(f"location.hash = '#component-{last}'")
    tab.locator(f"#component-{last}").wait_for(state="visible")


def test_without_scripts_all_components_can_be_reached_too(many, show):
    tab = show(report_page(many), script=False)
    assert tab.locator("article.component").count() == 60
    tab.locator("details.more > summary").click()
    assert tab.locator("article.component").last.is_visible()
    assert tab.locator("button").count() == 0


def test_values_are_read_under_the_pointer(fitted, html, show):
    data, result = fitted
    k = int(np.argmax(metrics.shares(result.W, result.H)))
    tab = show(html)
    for side, vector, axis in ((0, result.W[:, k], data.rows), (1, result.H[k], data.columns)):
        strip = tab.locator(f"#component-{k + 1} .strip").nth(side)
        strip.scroll_into_view_if_needed()
        box = strip.locator(".plot").bounding_box()
        i = int(np.argmax(vector))
        part = (axis.values[i] - axis.values[0]) / (axis.values[-1] - axis.values[0])
        tab.mouse.move(box["x"] + part * box["width"], box["y"] + 5)
        place, value = strip.locator(".readout").inner_text().split(": ")
        assert place == f"{axis.name} {axis.values[i]:g}"
        assert float(value) == pytest.approx(vector[i], rel=0.01)
        assert strip.locator(".readout").is_visible()


def test_values_are_read_with_the_keyboard(fitted, html, show):
    data, result = fitted
    k = int(np.argmax(metrics.shares(result.W, result.H)))
    tab = show(html)
    strip = tab.locator(f"#component-{k + 1} .strip").nth(1)
    strip.focus()
    strip.press("Home")
    first = strip.locator(".readout").inner_text()
    assert first.startswith(f"scan {data.columns.values[0]:g}: ")
    strip.press("End")
    assert strip.locator(".readout").inner_text().startswith(f"scan {data.columns.values[-1]:g}: ")
    strip.press("ArrowLeft")
    assert strip.locator(".readout").inner_text() != first


def test_dates_and_frequencies_are_read_as_they_are(show):
    tab = show(of_kind("dates"))
    strip = tab.locator(".strip").nth(1)
    strip.focus()
    strip.press("Home")
    assert strip.locator(".readout").inner_text().startswith("day 2026-01-01: ")
    tab = show(of_kind("sound"))
    strip = tab.locator(".strip").first
    strip.focus()
    strip.press("End")
    assert strip.locator(".readout").inner_text().startswith("frequency 3900 Hz: ")


def test_a_component_opens_large_zooms_and_goes_back(fitted, html, show):
    tab = show(html)
    article = tab.locator("article.component").nth(1)
    name = article.get_attribute("id")
    before = article.locator(".plot").first.bounding_box()["height"]
    article.locator("button.enlarge").click()
    large = tab.locator(f"dialog[open] #{name}")
    assert large.locator(".plot").first.bounding_box()["height"] > 2 * before
    strip = large.locator(".strip").nth(1)
    ticks = strip.locator(".ticks").inner_text()
    box = strip.locator(".plot").bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + 9)
    tab.mouse.wheel(0, -400)
    tab.wait_for_function("() => document.querySelectorAll('dialog .strip')[1].view?.[0] > 0")
    assert strip.locator(".ticks").inner_text() != ticks
    tab.keyboard.press("Escape")
    assert tab.locator("dialog[open]").count() == 0
    tab.wait_for_function(f"() => !document.querySelector('dialog #{name}')")  # put back after it
    assert tab.locator("article.component").nth(1).get_attribute("id") == name
    assert strip_view(tab, name) == "0 0 10000 1000"


def strip_view(tab, name):
    return tab.locator(f"#{name} .strip svg").nth(1).get_attribute("viewBox")


def test_a_figure_opens_large_and_goes_back(html, show):
    tab = show(html)
    order = tab.evaluate(
        "[...document.querySelectorAll('section figure svg')].map(s => s.ariaLabel)"
    )
    tab.locator("figure button.enlarge").first.click()
    assert tab.locator("dialog[open] figure svg").is_visible()
    tab.locator("dialog .close").click()
    tab.wait_for_function("() => !document.querySelector('dialog figure')")  # put back after it
    assert order == tab.evaluate(
        "[...document.querySelectorAll('section figure svg')].map(s => s.ariaLabel)"
    )
