"""What a page does with requests that it never sends itself."""

from itertools import product

import pytest

pytest.importorskip("bokeh", reason="the extra [explore] is not installed")

from bokeh.document import Document
from bokeh.events import Tap

from nmfmerge.explore.page import Page


class Desk:
    """What pages need of an explorer, without a server."""

    def __init__(self, session):
        self.session, self.tabs, self.drawings = session, 1, {}

    def subscribe(self, listener):
        return lambda: None


@pytest.fixture
def page(session):
    page = Page(Desk(session), Document())
    page.build()
    return page


NUMBERS = ["Infinity", "-Infinity", "NaN", "1e999", '"x"', "null", "[]", "{}"]


ACTIONS = ["select", "rank", "rank-by", "tap", "add", "split", "remove", "hold", "path"]


def test_what_is_no_number_is_refused_with_a_note(page, session):
    for action, number in product(ACTIONS, NUMBERS):
        page.act(f'{{"action": "{action}", "args": [{number}], "fields": {{}}}}')
        assert session.state.note.text.startswith(f"{action} was not understood: "), number
        assert session.state.note.kind == "error"
    assert session.state.result.n_components == 5
    page.draw()


NO_REQUESTS = ["", "{", "[]", "null", "Infinity", "[" * 100_000, '{"action": "add", "args": 3}']


def test_what_is_no_request_is_passed_over(page, session):
    for text in NO_REQUESTS:
        page.act(text)
        assert session.state.note is None


def test_a_tap_or_a_view_at_no_place_changes_nothing(page, session):
    for x in (float("nan"), float("inf")):
        page.curves.plots[0]._trigger_event(Tap(page.curves.plots[0], x=x))
        page.profiles[0].place.range.update(start=x, end=x)
        assert page.profiles[0].place.shown() == (0, len(session.state.result.W))
        page._redraw_window()
    assert session.state.note.text.startswith("tap was not understood")
    assert session.state.result.n_components == 5
