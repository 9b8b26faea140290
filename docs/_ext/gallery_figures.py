"""The pictures of a gallery page: those of pyplot, and a figure that the last line gives."""

from typing import Any

from matplotlib import rcParams
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper


def scrape(block: tuple, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the pictures of one block; a notebook would show the same."""
    pages = [matplotlib_scraper(block, block_vars, gallery_conf)]
    last = block_vars["example_globals"].get("___")  # where sphinx-gallery keeps its value
    if isinstance(last, Figure) and last.canvas.manager is None:
        block_vars["example_globals"]["___"] = None  # later blocks may have no value
        path = next(block_vars["image_path_iterator"])
        last.savefig(path, dpi=rcParams["figure.dpi"])
        pages.append(figure_rst([path], gallery_conf["src_dir"]))
    return "\n".join(pages)
