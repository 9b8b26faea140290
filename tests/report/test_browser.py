import html as markup
import re
import shutil
import subprocess

import pytest

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on PATH")

# A window cannot be as narrow as a phone, a frame can: the page measures itself inside one.
MEASURE = """<body><iframe style="border:0;width:{width}px;height:900px" srcdoc="{page}"
onload="
const d = this.contentDocument, e = d.documentElement;
const boxes = [...d.querySelectorAll('section')].map(s => s.getBoundingClientRect());
const out = [...d.querySelectorAll('main *')].filter(x => !x.closest('.wide, pre')
  && x.getBoundingClientRect().right > e.clientWidth + 1);
const images = [...d.images].filter(i => i.naturalWidth > 0);
document.getElementById('measured').textContent = [e.clientWidth, e.scrollWidth,
  boxes.filter(b => b.height > 40 && b.width > 200).length, out.length, images.length,
  d.querySelector('nav').getBoundingClientRect().right
    < d.querySelector('main').getBoundingClientRect().left].join(' ');
"></iframe><p id="measured">not yet</p></body>"""


def run(*arguments):
    fixed = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    return subprocess.run(
        [BROWSER, *fixed, *arguments], capture_output=True, text=True, timeout=120, check=True
    ).stdout


@pytest.mark.parametrize(("width", "beside"), [(1280, "true"), (390, "false"), (360, "false")])
def test_all_sections_fit_the_width(html, tmp_path, width, beside):
    path = tmp_path / "frame.html"
    path.write_text(MEASURE.format(width=width, page=markup.escape(html)), "utf-8")
    dom = run("--dump-dom", f"--window-size={max(width, 500)},900", path.as_uri())
    found = re.search(r'id="measured">([^<]*)<', dom)
    measured = found.group(1).split()
    assert measured == [str(width), str(width), "9", "0", "7", beside]


@pytest.mark.parametrize("scheme", [0, 1])
def test_the_page_follows_the_colour_scheme(html, tmp_path, scheme):
    matplotlib_image = pytest.importorskip("matplotlib.image")
    path, picture = tmp_path / "page.html", tmp_path / "page.png"
    path.write_text(html, "utf-8")
    run(
        f"--screenshot={picture}", "--window-size=1280,600",
        f"--blink-settings=preferredColorScheme={scheme}", path.as_uri(),
    )  # fmt: skip
    corner = matplotlib_image.imread(picture)[5, 5, :3].mean()
    assert corner > 0.9 if scheme == 1 else corner < 0.2
