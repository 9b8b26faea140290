"""The page answers at once on large data: 10,000 × 5,000 at rank 30."""

from time import thread_time

import numpy as np
import pytest

pytest.importorskip("bokeh", reason="the extra [explore] is not installed")

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.explore.session import Session
from nmfmerge.explore.state import Extras
from nmfmerge.metrics import next_merges
from nmfmerge.results.factorization import Factorization
from nmfmerge.results.rank_path import RankPath
from nmfmerge.solvers.history import Status

M, N, R = 10_000, 5_000, 30
LIMIT = 0.1  # seconds


@pytest.fixture(scope="module")
def page(page_of):
    rng = np.random.default_rng(0)
    W, H = rng.random((M, R), dtype=np.float32) ** 8, rng.random((R, N), dtype=np.float32) ** 8
    results = [
        Factorization(W[:, :r].copy(), H[:r].copy(), 1.0, 50.0 - r, (), Status.DONE, 0.0)
        for r in range(R - 3, R + 1)
    ]
    penalties = np.array([np.nan, 3.0, 2.0, 1.0])
    path = RankPath(results, penalties, np.ones(4), 4.0, Status.CONVERGED)
    rows, columns = Axis("m/z", 0.1 * np.arange(M)), Axis("time", 0.01 * np.arange(N), "min")
    session = Session(Dataset("large", W @ H, None, rows, columns), path[R])
    session._worker.close()  # nothing else at work while times are taken
    session._worker.submit = lambda work: None
    session.starts |= path
    session._update(path=path)
    yield page_of(session)
    session.close()


def fastest(page, actions):
    """Processor time of the server from an action to the page that shows it; best of several."""
    times = []
    for action in actions:
        began = thread_time()
        page.act(action)
        page.draw()
        times.append(thread_time() - began)
    return min(times)


def action(name, *arguments):
    return f'{{"action": "{name}", "args": {list(arguments)}, "fields": {{}}}}'


def test_selecting_a_component_is_answered_at_once(page):
    assert fastest(page, [action("select", i) for i in range(5)]) < LIMIT


def test_moving_the_slider_is_answered_at_once(page):
    first = [action("rank", r) for r in (R - 1, R - 2, R - 3)]
    assert fastest(page, first) < LIMIT
    assert page.shown.rank == R - 3


def test_choosing_a_pair_is_answered_at_once(page):
    page.session.go(R)
    result = page.session.state.result
    pairs = np.random.default_rng(1).random((R, R))
    pairs[np.diag_indices(R)] = np.nan
    tree = next_merges(result.W, result.H)
    page.session._update(extras=Extras(pairs, tree, None, np.empty(0)))
    assert fastest(page, [action("pair", 0, j) for j in range(1, 4)]) < LIMIT


@pytest.mark.parametrize("part", [1.0, 0.6, 0.2, 0.02])
def test_zooming_is_answered_at_once(page, part):
    times = []
    for shift in (0.0, 0.1, 0.2):
        for place in (page.maps.rows, page.maps.columns):
            width = part * (place.high - place.low)
            start = place.low + min(shift, 1 - part) * (place.high - place.low)
            place.range.update(start=start, end=start + width)
        page.maps._window = None
        began = thread_time()
        page._redraw_window()
        times.append(thread_time() - began)
    assert min(times) < LIMIT


def test_what_is_sent_is_small(page):
    for source in page.maps.sources:
        assert source.data["image"][0].nbytes <= 320 * 320
    for profile in page.profiles:
        assert len(profile.source.data["x"]) <= 2400
