"""Makes the screenshots of docs/explore.md: ``python docs/figures/explore.py``.

Needs the extras [explore] and [test], and Chromium. It writes the run of a known mixture as an mzML
file, opens it with ``nmfmerge explore``, and does in the page what the walk in the docs says.
"""

import base64
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
SECONDS = np.arange(300.0)

# Name, time of the peak (s), its width, strength, and peaks of the spectrum: m/z and height. The
# heaviest peak is the protonated molecule with its isotope; others are well-known fragments.
MIXTURE = [
    ("carnitine", 40, 4.0, 0.5, {162.11: 1.0, 163.12: 0.08, 103.04: 0.35}),
    ("hypoxanthine", 75, 4.5, 0.3, {137.05: 1.0, 138.05: 0.07, 110.03: 0.25}),
    ("phenylalanine", 120, 5.0, 1.0, {166.09: 1.0, 167.09: 0.10, 120.08: 0.55}),
    ("tryptophan", 160, 5.5, 0.6, {205.10: 1.0, 206.10: 0.12, 188.07: 0.6, 146.06: 0.2}),
    ("caffeine", 169, 5.0, 0.8, {195.09: 1.0, 196.09: 0.10, 138.07: 0.4}),
    ("hippuric acid", 225, 6.0, 0.4, {180.07: 1.0, 181.07: 0.10, 105.03: 0.7}),
]
BACKGROUND = "background"
N_NAMES = len(MIXTURE) + 1


def write_run(path: Path) -> None:
    """The run of the mixture, with shot noise, as an mzML file with a scan each second."""
    rng = np.random.default_rng(1)
    masses = sorted({mass for *_, peaks in MIXTURE for mass in peaks})
    clean = np.zeros((len(masses), len(SECONDS)))
    for _, centre, width, strength, peaks in MIXTURE:
        profile = strength * np.exp(-0.5 * ((SECONDS - centre) / width) ** 2)
        for mass, height in peaks.items():
            clean[masses.index(mass)] += height * profile
    noisy = rng.poisson(4000 * clean + 3.0)
    background = np.arange(100.5, 220.5)
    scans = []
    for column in noisy.T:
        others = rng.poisson(3.0, len(background))
        mass = np.concatenate([masses, background])
        order = np.argsort(mass)
        scans.append((mass[order], np.concatenate([column, others])[order].astype(float)))
    spectra = "".join(_spectrum(k, *scan) for k, scan in enumerate(scans))
    path.write_text(
        '<?xml version="1.0" encoding="utf-8"?>\n<mzML xmlns="http://psi.hupo.org/ms/mzml" '
        f'version="1.1.0"><run id="mixture"><spectrumList count="{len(scans)}">{spectra}'
        "</spectrumList></run></mzML>\n",
        encoding="utf-8",
    )


def _spectrum(k: int, masses: np.ndarray, intensities: np.ndarray) -> str:
    return (
        f'<spectrum index="{k}" id="scan={k + 1}" defaultArrayLength="{len(masses)}">'
        '<cvParam cvRef="MS" accession="MS:1000511" name="ms level" value="1"/>'
        '<scanList count="1"><scan><cvParam cvRef="MS" accession="MS:1000016" '
        f'name="scan start time" value="{SECONDS[k]}" unitCvRef="UO" unitAccession="UO:0000010" '
        'unitName="second"/></scan></scanList><binaryDataArrayList count="2">'
        f"{_array(masses, 'MS:1000514', 'm/z array')}"
        f"{_array(intensities, 'MS:1000515', 'intensity array')}</binaryDataArrayList></spectrum>"
    )


def _array(values: np.ndarray, accession: str, name: str) -> str:
    code = base64.b64encode(np.asarray(values, "<f8").tobytes()).decode()
    return (
        f'<binaryDataArray encodedLength="{len(code)}">'
        '<cvParam cvRef="MS" accession="MS:1000523" name="64-bit float"/>'
        '<cvParam cvRef="MS" accession="MS:1000576" name="no compression"/>'
        f'<cvParam cvRef="MS" accession="{accession}" name="{name}"/>'
        f"<binary>{code}</binary></binaryDataArray>"
    )


def compound(spectrum: dict[float, float]) -> str:
    """The compound of the mixture whose heaviest peak is the highest; a flat one is background."""
    highest = max(spectrum, key=lambda mass: spectrum[mass])
    if spectrum[highest] < 5 * np.median(list(spectrum.values())):
        return BACKGROUND
    known = {int(max(peaks, key=lambda m: peaks[m])): name for name, *_, peaks in MIXTURE}
    return known[int(highest)]


def selected_spectrum(page: Page) -> dict[float, float]:
    """The spectrum that the page draws large."""
    points = page.evaluate(
        "() => { const d = Bokeh.documents[0].get_model_by_name('rows').renderers[0].data_source"
        ".data; return [[...d.x], [...d.y]]; }"
    )
    return dict(zip(*points, strict=True))


def note(page: Page, start: str) -> None:
    """Wait until the page says that something was done."""
    page.wait_for_function(
        "start => document.getElementById('status').textContent.startsWith(start)", arg=start
    )


def rest(page: Page) -> None:
    """Wait until pairs and missing features of the solution are there."""
    page.wait_for_selector(".matrix", state="attached")
    page.wait_for_timeout(600)


def walk(page: Page) -> None:
    """The walk of the docs, with a screenshot at each stop."""
    page.wait_for_selector(".card")
    rest(page)
    page.screenshot(path=HERE / "explore-ranks.png")

    page.locator("#rank").fill(str(N_NAMES + 1))
    page.wait_for_function(f"document.querySelectorAll('.card').length === {N_NAMES + 1}")
    rest(page)
    page.keyboard.press("Escape")
    page.keyboard.press("m")
    page.wait_for_selector("#pairs .key")
    page.wait_for_timeout(600)
    page.screenshot(path=HERE / "explore-merge.png")
    page.keyboard.press("m")
    note(page, "Merged")
    page.keyboard.press("p")
    note(page, "Polished")
    rest(page)

    for place in range(N_NAMES):
        page.locator(".card").nth(place).click()
        page.wait_for_selector(f".card:nth-child({place + 1}).selected")
        page.wait_for_timeout(300)
        page.fill("#name", compound(selected_spectrum(page)))
        page.press("#name", "Enter")
        note(page, "Renamed")
        rest(page)
    page.locator(".card", has_text="caffeine").click()
    page.click("[data-tab=files]")
    page.keyboard.press("Control+s")
    note(page, "Saved as mixture.nmf")
    page.click("#theme")
    page.wait_for_timeout(800)
    page.screenshot(path=HERE / "explore-named.png")


def main() -> None:
    """Serve the run, walk, and stop the server."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        run = Path(folder) / "mixture.mzML"
        write_run(run)
        command = [sys.executable, "-m", "nmfmerge", "explore", str(run), "--max", "12",
                   "--no-browser", "--json"]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["address"]
            window = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            page = window.new_page(viewport={"width": 1280, "height": 760})
            page.goto(address)
            walk(page)
            names = page.locator(".card .name").all_inner_texts()
            window.close()
            server.terminate()
        assert sorted(names) == sorted([BACKGROUND, *(name for name, *_ in MIXTURE)]), names
        print("named:", ", ".join(names))


if __name__ == "__main__":
    main()
