"""Figures that the last line of a gallery block gives are on its page, as in a notebook."""

from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

EXTENSIONS = Path(__file__).parents[2] / "docs" / "_ext"


@pytest.fixture
def scrape(monkeypatch, tmp_path):
    """Scrapes the blocks of a page; gives what is on the page, and the pictures so far."""
    pytest.importorskip("sphinx_gallery")
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    import gallery_figures

    monkeypatch.setattr(gallery_figures, "matplotlib_scraper", lambda *_: "")  # not ours
    plt.switch_backend("Agg")
    names = {}
    paths = (str(tmp_path / f"picture_{i}.png") for i in range(1, 9))
    block_vars = {"example_globals": names, "image_path_iterator": paths}

    def run(**assigned):
        names.update(assigned)
        page = gallery_figures.scrape((), block_vars, {"src_dir": str(tmp_path)})
        return page, sorted(path.name for path in tmp_path.iterdir())

    yield run
    plt.close("all")


def test_a_figure_without_pyplot_is_shown_once(scrape):
    page, files = scrape(___=Figure())
    assert files == ["picture_1.png"]
    assert "picture_1.png" in page
    page, files = scrape()  # the next block gives nothing
    assert files == ["picture_1.png"]
    assert not page.strip()


def test_figures_of_pyplot_are_left_to_sphinx_gallery(scrape):
    page, files = scrape(___=plt.figure())
    assert not files
    assert not page.strip()
