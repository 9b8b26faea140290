"""The tab on the fits of a consensus."""

import re

import numpy as np
import pytest

pytest.importorskip("bokeh", reason="the extra [explore] is not installed")

from bokeh.document import Document

from nmfmerge import consensus
from nmfmerge.explore.explorer import open_path
from nmfmerge.explore.fits import fits
from nmfmerge.explore.page import Page
from nmfmerge.io import read
from nmfmerge.results.about import About
from nmfmerge.storage.folder import Fit, write
from nmfmerge.storage.provenance import digest


class Desk:
    """What pages need of an explorer, without a server."""

    def __init__(self, session):
        self.session, self.tabs, self.drawings = session, 1, {}

    def subscribe(self, listener):
        return lambda: None


@pytest.fixture(scope="module")
def found(data):
    return consensus(data, "3-6", n_fits=4, tol=1e-2)


@pytest.fixture
def opened(file, found, tmp_path):
    about = About(file=str(file.resolve()), data_sha256=digest(file))
    write(tmp_path / "out", Fit(found[4].factorization, read(file), about, consensus=found))
    session = open_path(tmp_path / "out")
    session.wait()
    yield session
    session.close()


def test_an_opened_consensus_is_shown_with_all_its_ranks(opened, found):
    state = opened.state
    assert state.consensus.ranks == found.ranks
    assert state.assessment == found.assess()
    html = fits(state)
    for rank in found:
        assert f'data-action="rank" data-args="[{rank}]"' in html
        assert f"<td>{found[rank].silhouette:.2f}</td>" in html
    assert re.findall(r"<td>(\d) of 4</td>", html) == [str(n) for n in found[4].n_found()]


def test_going_to_a_rank_shows_its_components(opened, found):
    opened.go(6)
    opened.wait()
    assert np.array_equal(opened.state.result.H, found[6].H)
    assert fits(opened.state).count(" of 4</td>") == 6
    opened.edit("remove", 0)
    opened.wait()
    assert " of 4</td>" not in fits(opened.state)


def test_the_page_has_the_tab(opened):
    page = Page(Desk(opened), Document())
    page.build()
    assert "Fits that agree" in page.shown.fits


def test_without_a_consensus_the_tab_says_how_to_get_one(session):
    assert "nmfmerge consensus" in fits(session.state)
