"""The large figures, without a browser."""

import re

import numpy as np
import pytest

pytest.importorskip("bokeh", reason="the extra [explore] is not installed")

from bokeh.models import NoOverlap

from nmfmerge import nmf
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.explore.session import Session
from nmfmerge.fields.names import top_names


def names(letter, n):
    return np.array([f"{letter}{i}" for i in range(n)])


@pytest.mark.parametrize("kind", ["numbers", "names"])
def test_labels_of_an_axis_never_overlap(rng, page_of, kind):
    values = {"numbers": np.arange, "names": lambda n: names("gene", n)}[kind]
    axes = Axis("gene", values(90)), Axis("sample", values(70))
    session = Session(Dataset("run", rng.random((90, 70)), None, *axes))
    for plot in page_of(session).plots:
        for axis in plot.axis:
            assert isinstance(axis.major_label_policy, NoOverlap), plot.name
    session.close()


@pytest.mark.parametrize(
    ("masses", "linked"),
    [
        (np.arange(100, 190), True),
        (np.arange(100, 190) + np.random.default_rng(0).uniform(-0.5, 0.5, 90), True),  # in bins
        (np.arange(100, 190) ** 2, False),
        (np.arange(190, 100, -1), False),
    ],
)
def test_maps_have_the_masses_of_bins_and_zoom_with_the_spectrum(rng, page_of, masses, linked):
    axes = Axis("m/z", masses), Axis("time", np.arange(70))
    session = Session(Dataset("run", rng.random((90, 70)), None, *axes))
    page = page_of(session)
    spectrum, data = page.profiles[0].plot, page.maps.plots[0]
    assert (spectrum.x_range is data.y_range) == linked
    assert data.yaxis.axis_label == ("m/z" if linked else "m/z number")
    session.close()


@pytest.fixture
def alike(rng):
    """Genes × samples: one gene is the largest in every component and specific to none."""
    W = 0.1 * rng.random((90, 3))
    for k in range(3):
        W[10 * k : 10 * k + 10, k] += 1
    W[80] = 9
    H = rng.random((3, 60)) + 0.05
    X = W @ H
    axes = Axis("gene", names("gene", 90)), Axis("sample", names("sample", 60))
    data = Dataset("run", X, None, *axes)
    session = Session(data, nmf(X, 3, init=(W, H), max_iter=1, tol=0.5))
    session.wait()
    yield session
    session.close()


def listed_in_cards(page):
    """Names in the left column of each card, by component."""
    cards = re.findall(r'data-args="\[(\d)\]">(.*?)</button>', page.shown.cards)
    return {int(k): re.findall(r'class="bar rows"[^>]*>([^<]+)<', card) for k, card in cards}


def test_names_are_those_of_the_tables_and_the_report(alike, page_of):
    page = page_of(alike)
    result, data = alike.state.result, alike.data
    tops = top_names(result, data, "gene", 24)
    by_weight = [data.rows.values[i] for i in np.argsort(-result.W, axis=0)[0]]
    assert by_weight == 3 * ["gene80"]
    cards = listed_in_cards(page)
    for k in range(3):
        table = [top.name for top in tops if top.component == k + 1]
        assert "gene80" not in table[:10]
        assert set(cards[k]) == set(table[:3])
        alike.select(k)
        page.draw()
        assert set(page.profiles[0].source.data["name"]) == set(table)
    assert page.profiles[0].plot.xaxis.axis_label == "most specific: gene"


def test_names_of_a_preview_are_specific_too(alike, page_of):
    page = page_of(alike)
    alike.choose_pair(0, 1)
    page.draw()
    first = re.findall(r'class="bar first"[^>]*>([^<]+)<', page.shown.pairs)
    merged = re.findall(r'class="bar merged"[^>]*>([^<]+)<', page.shown.pairs)
    assert len(first) == len(merged) == 6  # three of each side
    assert first[:3] == listed_in_cards(page)[0]
    assert "gene80" not in merged
