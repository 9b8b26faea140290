import numpy as np
import pytest

from nmfmerge import datasets, nmf
from nmfmerge.explore import session as session_module
from nmfmerge.explore.explorer import open_path
from nmfmerge.explore.session import Session


def done(session):
    """The note when the work in progress, and what follows it, is done."""
    session.wait()
    session.wait()
    assert session.state.job is None
    return session.state.note


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """Pairs and missing features are computed without waiting for the user to rest."""
    monkeypatch.setattr(session_module, "_REST", 0.0)


@pytest.fixture(scope="session")
def data():
    return datasets.lcms_like(60, 90, 5)


@pytest.fixture(scope="session")
def start(data):
    return nmf(data.X, 5, tol=1e-3)


@pytest.fixture
def session(data, start):
    """A session on a solution of five components."""
    session = Session(data, start)
    session.wait()
    yield session
    session.close()


@pytest.fixture
def file(tmp_path, data):
    """A data file in a folder of its own."""
    path = tmp_path / "run.npy"
    np.save(path, data.X)
    return path


@pytest.fixture
def opened(file):
    """A session on a data file, with the path through ranks up to 5."""
    session = open_path(file)
    session.find_path(5)
    done(session)
    yield session
    session.close()


class Desk:
    """What pages need of an explorer, without a server."""

    def __init__(self, session):
        self.session, self.tabs, self.drawings = session, 1, {}

    def subscribe(self, listener):
        return lambda: None


@pytest.fixture(scope="session")
def page_of():
    """Makes the page of a session, without a browser."""
    pytest.importorskip("bokeh", reason="the extra [explore] is not installed")
    from bokeh.document import Document

    from nmfmerge.explore.page import Page

    def make(session):
        page = Page(Desk(session), Document())
        page.build()
        return page

    return make
