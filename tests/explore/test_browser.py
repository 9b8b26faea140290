"""The page in a real browser: what a user does, and what may go wrong."""

import json
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from nmfmerge import datasets, explore
from nmfmerge.storage import folder

pytest.importorskip("bokeh", reason="the extra [explore] is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on PATH")
WAIT = 120_000  # milliseconds: on a busy machine kernels compile slowly


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


class Running:
    """The command `nmfmerge explore` in a process of its own, for tests that end it."""

    def __init__(self, path):
        command = [sys.executable, "-m", "nmfmerge", "explore", str(path), "--max", "6"]
        self.path = path
        self.process = subprocess.Popen(
            [*command, "--no-browser", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=path.parent,
        )  # fmt: skip
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.address = json.loads(line)["address"]

    def end(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        code = self.process.wait(20)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


@pytest.fixture
def running(file):
    running = Running(file)
    yield running
    if running.process.poll() is None:
        running.end()


@pytest.fixture(scope="module")
def explorer(tmp_path_factory, data):
    """An explorer in this process, for tests that leave it running."""
    path = tmp_path_factory.mktemp("explorer") / "run.npy"
    np.save(path, data.X)
    explorer = explore(path, n_max=6)
    yield explorer
    explorer.stop()


@pytest.fixture
def page(browser, explorer):
    yield from opened(browser, explorer)


def opened(browser, running):
    """The page of the data file, with its first components."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(WAIT)
    troubles = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(running.address)
    page.wait_for_selector(".card")
    rest(page)
    yield page
    context.close()
    assert troubles == []


def rest(page):
    """Wait until no work is going on."""
    page.wait_for_function("!document.querySelector('#status .busy')")


def note(page, pattern):
    """Wait for a note, and return its text."""
    page.wait_for_function(
        "pattern => new RegExp(pattern).test(document.getElementById('status').textContent)",
        arg=pattern,
    )
    return page.inner_text("#status p")


def n_components(page):
    return page.locator(".card").count()


def error(page):
    return float(page.inner_text("#error").split()[0])


def go_to_rank(page, rank):
    page.click("[data-tab=ranks]")
    page.locator("#rank").fill(str(rank))
    page.wait_for_function(f"document.querySelectorAll('.card').length === {rank}")
    page.wait_for_selector(".cell", state="attached")


def test_a_walk_from_a_file_to_a_saved_fit_and_back(page, explorer):
    here = explorer.session.place.folder
    # the slider moves through the ranks, and the error falls
    errors = []
    for rank in (2, 4, 6):
        go_to_rank(page, rank)
        errors.append(error(page))
    assert errors[0] > errors[1] > errors[2]

    # a pair is looked at, merged, and the merge undone
    before = error(page)
    page.click("[data-tab=merge]")
    page.locator(".cheapest button").first.click()
    page.wait_for_selector("text=/Merge .* and .*\\?/")
    promised = float(re.search(r"→ ([\d.e+-]+) %", page.inner_text("#pairs"))[1])
    page.click("#pairs button.main")
    told = note(page, "^Merged .*fitting error")
    assert n_components(page) == 5
    assert error(page) == pytest.approx(promised, rel=2e-3)
    assert f"{before:.4g} % → {error(page):.4g} %" in told
    page.click("[data-action=undo]")
    note(page, "^Undone")
    assert n_components(page) == 6
    assert error(page) == before

    # a recovered feature is shown before it is added
    page.click("[data-tab=missing]")
    page.click("text='Add it'")
    note(page, "^Added a missing feature: .* Polish")
    assert n_components(page) == 7

    # hold, polish, rename
    page.locator(".card").nth(1).click()
    page.wait_for_selector(".card:nth-child(2).selected")
    page.click("#tools [data-action=hold]")
    note(page, "^Held")
    assert page.locator(".held").count() == 1
    raised = error(page)
    page.click("[data-action=polish]")
    note(page, "^Polished")
    assert error(page) <= raised
    page.fill("#name", "glucose <b>")
    page.press("#name", "Enter")
    note(page, "^Renamed .* to glucose <b>")
    assert page.locator(".card.selected .name").inner_text().startswith("glucose <b>")

    # save, and open what was saved
    page.click("[data-tab=files]")
    page.fill("#folder", "mine.nmf")
    page.click("form[data-action=save] button")
    note(page, "^Saved as mine.nmf in ")
    fit = folder.read(here / "mine.nmf")
    assert fit.result.n_components == 7
    assert "glucose <b>" in fit.result.names
    assert fit.result.fitting_error == pytest.approx(error(page), rel=1e-3)
    assert fit.data.rows.values.shape == (60,)
    page.wait_for_selector("option[value='mine.nmf']", state="attached")
    page.select_option("#open", "mine.nmf")
    page.click("form[data-action=open] button")
    page.wait_for_selector("h1:text-is('mine.nmf')")
    page.wait_for_function("document.querySelectorAll('.card').length === 7")
    page.wait_for_selector("text='glucose <b>'")
    page.wait_for_selector("[data-action=undo][disabled]")

    # and back to the data, where the edits still are
    page.click("[data-tab=files]")
    page.select_option("#open", "run.npy")
    page.click("form[data-action=open] button")
    page.wait_for_selector("h1:text-is('run.npy')")
    page.wait_for_selector("[data-action=undo]:not([disabled])")
    page.wait_for_selector("text='glucose <b>'")


def test_a_wrong_file_is_told_and_all_stays(page, explorer):
    file = explorer.session.place.folder / "run.npy"
    (file.parent / "broken.npy").write_bytes(b"this is no array")
    (file.parent / "negative.csv").write_text("1,-2\n3,4\n")
    shown = page.inner_text(".card.selected .name")
    page.click("[data-tab=files]")
    go_to_rank(page, 3)
    for name in ("broken.npy", "negative.csv"):
        page.click("[data-tab=files]")
        page.click("[data-action=polish]")  # the list of files is read again with every note
        note(page, "^Polished")
        page.select_option("#open", name)
        page.click("form[data-action=open] button")
        assert name in note(page, f"^{name} was not opened")
        assert n_components(page) == 3
    assert shown.startswith("Component")


def test_a_file_that_cannot_be_read_ends_the_command_with_a_sentence(tmp_path):
    wrong = tmp_path / "wrong.npy"
    wrong.write_bytes(b"this is no array")
    out = subprocess.run(
        [sys.executable, "-m", "nmfmerge", "explore", str(wrong), "--no-browser"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert out.returncode == 1
    assert out.stderr.startswith(f"nmfmerge: {wrong} ")
    assert "Traceback" not in out.stderr


def test_a_killed_server_is_told_and_edits_are_there_again(running, file, browser):
    opening = opened(browser, running)
    page = next(opening)
    go_to_rank(page, 4)
    page.click("#tools [data-action=split]")
    note(page, "^Split .*fitting error")
    running.end()
    page.wait_for_selector("#lost:not([hidden])")
    text = page.inner_text("#lost")
    assert "does not answer" in text
    assert "run.npy.edits" in text
    assert f"nmfmerge explore {file.resolve()}" in text
    list(opening)  # closes the page
    again = Running(file)
    try:
        other = browser.new_page()
        other.goto(again.address)
        other.wait_for_selector(".card", timeout=WAIT)
        note(other, "earlier session")
        assert n_components(other) == 5
        assert other.locator("[data-action=undo]").is_enabled()
        other.close()
    finally:
        again.end()


def test_ctrl_c_ends_the_command_in_peace(running):
    assert running.end(signal.SIGINT) == 0


def test_two_tabs_show_one_session(page, explorer):
    other = page.context.new_page()
    other.goto(explorer.address)
    other.wait_for_selector(".card", timeout=WAIT)
    note(page, "Open in 2 tabs")
    go_to_rank(page, 4)
    other.wait_for_function("document.querySelectorAll('.card').length === 4")
    other.click("#tools [data-action=hold]")
    page.wait_for_selector(".held", timeout=WAIT)
    page.click("[data-action=undo]")
    other.wait_for_function("document.querySelectorAll('.held').length === 0")
    other.close()


def test_a_foreign_page_cannot_reach_the_session(explorer, browser):
    foreign = browser.new_page()
    foreign.route("http://evil.example/", lambda route: route.fulfill(
        body="<html></html>", content_type="text/html"))  # fmt: skip
    foreign.goto("http://evil.example/")
    reached = foreign.evaluate(
        """async address => {
          const open = new Promise(done => {
            const socket = new WebSocket(address.replace("http", "ws") + "ws", ["bokeh", "x"]);
            socket.onopen = () => done("open");
            socket.onerror = () => done("refused");
          });
          const read = fetch(address + "alive").then(a => a.text()).catch(() => "refused");
          return [await open, await read];
        }""",
        explorer.address,
    )
    assert reached == ["refused", "refused"]
    foreign.close()


def test_keys_do_what_buttons_do(page, explorer):
    go_to_rank(page, 4)
    page.keyboard.press("Escape")
    first = page.inner_text(".card.selected .name")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".card:nth-child(2).selected")
    page.keyboard.press("ArrowUp")
    page.wait_for_selector(".card:nth-child(1).selected")
    assert page.inner_text(".card.selected .name") == first
    page.keyboard.press("h")
    note(page, "^Held")
    page.keyboard.press("Control+z")
    note(page, "^Undone")
    page.keyboard.press("Control+Shift+Z")
    note(page, "^Done again")
    page.keyboard.press("m")
    page.wait_for_selector("text=/Merge .* and .*\\?/")
    page.keyboard.press("m")
    note(page, "^Merged")
    assert n_components(page) == 3
    page.keyboard.press("p")
    note(page, "^Polished")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("r")
    page.keyboard.type("lactate")
    page.keyboard.press("Enter")
    note(page, "^Renamed .* to lactate")
    page.keyboard.press("Control+s")
    assert str(explorer.session.place.folder) in note(page, "^Saved as .*nmf in ")


def test_the_button_saves_and_the_page_asks_before_it_replaces(page, explorer):
    here = explorer.session.place.folder
    go_to_rank(page, 5)  # which has no note yet
    page.click("header [data-action=save]")
    name = re.match(r"Saved as (.+\.nmf) in ", note(page, "^Saved as "))[1]
    assert folder.read(here / name).result.n_components == 5
    assert (here / name / "report.html").is_file()
    go_to_rank(page, 2)
    page.click("[data-tab=files]")
    page.fill("#folder", name)
    page.press("#folder", "Enter")
    page.wait_for_selector(".question")
    page.click("text='Keep it'")
    note(page, f"^{name} was not replaced")
    page.fill("#folder", name)
    page.press("#folder", "Enter")
    page.click(".question .main")
    note(page, f"^Saved as {name}")
    assert folder.read(here / name).result.n_components == 2
    assert page.locator(".question").count() == 0


def test_zooming_one_view_zooms_all(page):

    def ranges():
        return page.evaluate(
            """() => { const get = name => Bokeh.documents[0].get_model_by_name(name);
            const ends = range => [range.start, range.end];
            return ["data", "fit", "rest", "columns", "rows"].map(name => ends(get(name).x_range))
              .concat([ends(get("rest").y_range)]); }"""
        )

    before = ranges()
    box = page.locator(".maps > div").first.bounding_box()
    x, y = box["x"], box["y"]
    page.mouse.move(x + 0.45 * box["width"], y + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(x + 0.75 * box["width"], y + 0.6 * box["height"], steps=4)
    page.mouse.up()
    page.wait_for_function(
        "width => { const r = Bokeh.documents[0].get_model_by_name('rest').x_range;"
        " return r.end - r.start < width }", arg=0.9 * (before[0][1] - before[0][0]),
    )  # fmt: skip
    after = ranges()
    assert after[0] == after[1] == after[2] == after[3]  # scans: maps and elution profile
    assert after[4] == after[5]  # masses: maps and spectrum
    assert after[4] != before[4]


def sideways(page):
    """What is wider than its place, but for the strip of components, which scrolls."""
    return page.evaluate(
        "[document.documentElement, ...document.querySelectorAll('header, main > section, .panel')]"
        ".filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.className || e.tagName)"
    )


TABS = ("ranks", "merge", "missing", "files")


@pytest.mark.parametrize("width", [1280, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_fits_the_window_in_light_and_dark(browser, explorer, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto(explorer.address)
    page.wait_for_selector(".card", timeout=WAIT)
    for name in TABS:
        page.click(f"[data-tab={name}]")
        assert sideways(page) == [], name
    assert page.evaluate("document.documentElement.scrollHeight") <= 800
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = np.mean([int(value) for value in re.findall(r"\d+", paper)[:3]]) > 128
    assert light == (scheme == "light")
    page.close()


@pytest.mark.parametrize("width", [390, 600, 820, 1100])
def test_a_narrow_page_has_its_heading_on_one_line_and_save_in_sight(browser, explorer, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(explorer.address)
    page.wait_for_selector(".card", timeout=WAIT)
    for name in TABS:
        page.click(f"[data-tab={name}]")
        assert sideways(page) == [], name
    for place in ("0", "document.documentElement.scrollHeight"):
        page.evaluate(f"scrollTo(0, {place})")
        box = page.locator("header [data-action=save]").bounding_box()
        assert 0 <= box["x"] <= width - box["width"]
        assert 0 <= box["y"] <= 200
    heading = page.locator("#heading").bounding_box()
    assert heading["height"] < 50  # the name and one line of numbers
    for plot in page.locator(".profiles > div, .maps > div").all():
        box = plot.bounding_box()
        assert box["width"] > 180
        assert 150 < box["height"] < 500
    page.close()


def test_selecting_on_a_narrow_page_moves_the_strip_and_not_the_page(browser, explorer):
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(explorer.address)
    page.wait_for_selector(".card", timeout=WAIT)
    go_to_rank(page, 5)
    page.keyboard.press("Escape")
    rest(page)
    page.evaluate("scrollTo(0, 700)")
    figure = page.locator(".profiles > div, .maps > div").last
    before = figure.bounding_box()["y"]
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.wait_for_function("document.getElementById('cards').scrollLeft > 200")
    rest(page)
    assert abs(figure.bounding_box()["y"] - before) < 1  # what is in sight stays where it is
    page.close()


def test_a_finger_on_a_figure_scrolls_the_page(browser, explorer):
    phone = {"width": 390, "height": 800}
    context = browser.new_context(viewport=phone, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(explorer.address)
    page.wait_for_selector(".card", timeout=WAIT)
    page.wait_for_selector("[data-ready=yes]", state="attached")
    active = page.evaluate(
        "Bokeh.documents[0].roots().flatMap(plot => plot.toolbar.tools)"
        ".filter(tool => tool.active && tool.event_types.includes('pan')).length"
    )
    assert active == 0
    assert page.is_visible(".touch")
    context.close()


@pytest.fixture(scope="module")
def movie():
    """An explorer of pictures that are twice as high as wide."""
    X = np.random.default_rng(0).random((24 * 12, 30))
    axes = datasets.Axis("pixel", np.arange(24 * 12)), datasets.Axis("frame", np.arange(30))
    explorer = explore(datasets.Dataset("movie", X, None, *axes, image_shape=(24, 12)), n_max=2)
    yield explorer
    explorer.stop()


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_pixels_of_a_picture_are_square(browser, movie, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(movie.address)
    page.wait_for_selector(".card", timeout=WAIT)
    page.wait_for_timeout(500)
    across, down, x, y = page.evaluate(
        """() => { const plot = Bokeh.documents[0].get_model_by_name("rows");
        const length = range => Math.abs(range.end - range.start);
        const ranges = [plot.x_range, plot.y_range].map(length);
        return [plot.inner_width, plot.inner_height, ...ranges]; }"""
    )
    assert min(across, down) > 100
    assert across / x == pytest.approx(down / y, rel=0.02)  # screen pixels of a pixel
    assert (x, y) == (pytest.approx(max(12, 24 * across / down), rel=0.02), pytest.approx(24))
    page.close()


def test_a_picture_is_made_of_what_is_there(page, tmp_path):
    """The maps are drawn, not blank: their pixels have many colours."""
    image = pytest.importorskip("PIL.Image")
    for place in (0, 1, 2):
        file = tmp_path / f"map-{place}.png"
        page.locator(".maps > div").nth(place).screenshot(path=file)
        with image.open(file) as picture:
            assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 50


def test_small_messages_do_not_wait_for_each_other(page):
    """A beat comes back at once: less than the 40 ms that TCP would hold a small message back."""
    times = page.evaluate(
        """async () => {
          const shown = Bokeh.documents[0].get_model_by_name("shown"), times = [];
          while (times.length < 12) {
            const began = performance.now(), beat = shown.beat + 1; // the page sends beats too
            shown.beat = beat;
            while (shown.heard < beat) await new Promise(done => setTimeout(done, 1));
            times.push(performance.now() - began);
          }
          return times;
        }"""
    )
    assert min(times[2:]) < 30
