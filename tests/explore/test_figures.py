"""The large figures, without a browser."""

import numpy as np
import pytest

pytest.importorskip("bokeh", reason="the extra [explore] is not installed")

from bokeh.document import Document
from bokeh.models import NoOverlap

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.explore.page import Page
from nmfmerge.explore.session import Session


class Desk:
    """What pages need of an explorer, without a server."""

    def __init__(self, session):
        self.session, self.tabs, self.drawings = session, 1, {}

    def subscribe(self, listener):
        return lambda: None


def page_of(session):
    page = Page(Desk(session), Document())
    page.build()
    return page


def names(letter, n):
    return np.array([f"{letter}{i}" for i in range(n)])


@pytest.mark.parametrize("kind", ["numbers", "names"])
def test_labels_of_an_axis_never_overlap(rng, kind):
    values = {"numbers": np.arange, "names": lambda n: names("gene", n)}[kind]
    axes = Axis("gene", values(90)), Axis("sample", values(70))
    session = Session(Dataset("run", rng.random((90, 70)), None, *axes))
    for plot in page_of(session).plots:
        for axis in plot.axis:
            assert isinstance(axis.major_label_policy, NoOverlap), plot.name
    session.close()
