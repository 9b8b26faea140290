import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure

import nmfmerge
from nmfmerge import Factorization, NMFMerge, Stage, Status, datasets, nmf_merge, rank_path
from nmfmerge.metrics import shares
from nmfmerge.results import notebook as display


class Balanced(HTMLParser):
    """Checks that every tag is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check(html):
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    return re.sub(r"<style>.*?</style>|<[^>]+>", " ", html)


@pytest.fixture(scope="module")
def data():
    return datasets.lcms_like(40, 60, 6)


@pytest.fixture(scope="module")
def result(data):
    return nmf_merge(data.X, 6)


def test_a_result_shows_its_components_error_and_stages(result):
    text = check(result._repr_html_())
    assert f"{result.fitting_error:.4g} %" in text
    assert "best of 4 starts" in text
    assert all(f"{share:.3g} %" in text for share in shares(result.W, result.H))
    assert all(stage.name in text for stage in result.stages)
    assert result._repr_html_().count("<svg") == 12


def test_names_are_escaped_and_many_components_counted(result):
    from dataclasses import replace

    named = replace(result, names=("<b>&", *"abcde"))
    assert "&lt;b&gt;&amp;" in named._repr_html_()
    many = replace(
        result, W=np.ones((40, 33)), H=np.ones((33, 60)), starts=(), spread=None, merge_ids=(),
        merges=None,
    )  # fmt: skip
    assert "and 3 more components" in check(many._repr_html_())


def test_a_path_shows_ranks_and_what_they_say(data):
    path = rank_path(data.X, 8, stability=True)
    text = check(path._repr_html_())
    assert str(path.assess()) in text.replace("&#x27;", "'")
    assert all(f"{error:.4g} %" in text for error in path.fitting_errors)


def test_an_estimator_shows_its_components_once_it_is_fitted(data):
    model = NMFMerge(3)
    assert "nmfmerge-result" not in model._repr_mimebundle_()["text/html"]
    model.fit(data.X)
    for html in (model._repr_mimebundle_()["text/html"], model._repr_html_()):
        assert html.count("nmfmerge-result") >= 1
        assert f"{model.reconstruction_err_:.4g}" in html


@pytest.mark.parametrize("vector", [np.zeros(0), np.zeros(5), np.ones(1), np.arange(1000.0)])
def test_a_small_line_stays_in_its_box(vector):
    points = re.search(r'points="([^"]*)"', display.sparkline(vector))[1]
    x, y = np.array([point.split(",") for point in points.split()], dtype=float).T
    assert len(x) == max(2, min(len(vector), 120))
    assert x.min() == 0
    assert x.max() == 240
    assert (y >= 0).all()
    assert (y <= 26).all()


def test_results_draw_themselves(result, data):
    assert isinstance(result.plot(), Figure)
    assert result.plot("components", data, which=[0]).axes[0].get_title().startswith("W: m/z")
    assert isinstance(result.plot("merges"), Figure)
    assert isinstance(rank_path(data.X, 3).plot(2), Figure)
    with pytest.raises(ValueError, match="kind='pie' is not a figure; expected one of components"):
        result.plot("pie")


def test_every_figure_of_a_result_is_a_function_of_plot():
    assert set(nmfmerge.plot.FIGURES) <= set(nmfmerge.plot.__all__)


def test_packages_are_there_after_the_import_and_loaded_when_used():
    code = """
import sys, nmfmerge
print(*(f"nmfmerge.{n}" in sys.modules for n in ("plot", "report")), "matplotlib" in sys.modules)
print(nmfmerge.plot.components.__name__, nmfmerge.io.read.__name__, "export" in dir(nmfmerge))
try:
    nmfmerge.nothing
except AttributeError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines() == [
        "False False False", "components read True", "module 'nmfmerge' has no attribute 'nothing'",
    ]  # fmt: skip


def test_a_factor_that_is_computed_when_asked_for_is_not_computed_to_be_shown():
    import dask.array as da

    def refuse(block):
        raise AssertionError("it was computed")

    H = np.random.default_rng(0).random((3, 8))
    W = da.ones((50, 3), chunks=(10, 3)).map_blocks(refuse, meta=np.empty((0, 0)))
    stage = Stage("final", 3, 5, 0.1, 1.0, Status.CONVERGED)
    result = Factorization(W, H, 1.0, 1.0, [stage], Status.CONVERGED, 0.1)
    html = result._repr_html_()
    assert "50 × 8" in html
    assert html.count("<polyline") == 3
    assert "Share" not in html
    assert "50 × 8" in repr(result)
