"""Sphinx: ``sphinx-build -W --keep-going -b html docs docs/_build/html``; needs no network."""

import os
import sys
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # the gallery's matrices are small

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import nmfmerge  # noqa: E402

project = "nmfmerge"
author = "The nmfmerge developers"
copyright = "the nmfmerge developers, MIT licence"
version = release = nmfmerge.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
exclude_patterns = ["_build", "gallery", "figures", "README.md"]
smartquotes = False
rst_prolog = ".. currentmodule:: nmfmerge"  # so that `nmf` is ours in the gallery
default_role = "py:obj"  # a name in backticks is a link where it is one of ours

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_.*\.py",
    "within_subsection_order": "gallery_style.Order",
    "reset_modules": ("gallery_style.apply",),
    "image_scrapers": ("gallery_figures.scrape",),
    "download_all_examples": False,
    "show_memory": False,
    "capture_repr": (),
    "write_computation_times": False,  # its page loads scripts from the network
    "min_reported_time": 0,
    "remove_config_comments": True,
}
suppress_warnings = ["config.cache"]

html_theme = "furo"
html_title = f"nmfmerge {version}"
html_static_path = ["_static"]
html_css_files = ["extra.css"]
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
templates_path = ["_templates"]
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#a01f36",
        "color-brand-content": "#a01f36",
        "font-stack": "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif",
        "font-stack--monospace": "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace",
    },
    "dark_css_variables": {
        "color-brand-primary": "#f2889a",
        "color-brand-content": "#f2889a",
    },
}


def setup(app):
    """Leave out methods that scikit-learn gives every estimator: they refer to its own pages."""

    def skip(app, what, name, *rest):
        return True if name.startswith("set_") and name.endswith("_request") else None

    app.connect("autodoc-skip-member", skip)
