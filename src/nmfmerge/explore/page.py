"""One tab of the explorer: it draws the session, and turns what the user does into calls of it."""

import json
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.core.properties import Bool, Int, String
from bokeh.document import Document
from bokeh.events import RangesUpdate, Tap
from bokeh.model import DataModel
from bokeh.models import CustomJS
from jinja2 import Template

from nmfmerge.explore import fragments
from nmfmerge.explore.figures import Coordinates, Curves, Maps, Profile, paint
from nmfmerge.explore.fits import fits
from nmfmerge.explore.state import Note, PageState
from nmfmerge.explore.thumbs import thumbs
from nmfmerge.explore.tree import tree_drawing
from nmfmerge.explore.views import GroupedCells, SortedCells, View, views_of
from nmfmerge.plot.side import Side, sides_of

if TYPE_CHECKING:
    from nmfmerge.explore.explorer import Explorer

_PARTS = (
    "heading", "status", "buttons", "cards", "tools", "slider", "ranks", "fits", "pairs", "tree",
    "missing", "files", "caption",
)  # fmt: skip
_ZOOM_MS = 40  # from a change of the view to a new picture of it


class Shown(DataModel):
    """State shared by browser and server: parts of the page as HTML, and the user's actions."""

    action = String(default="")
    heading = String(default="")
    status = String(default="")
    buttons = String(default="")
    cards = String(default="")
    tools = String(default="")
    slider = String(default="")
    ranks = String(default="")
    fits = String(default="")
    pairs = String(default="")
    tree = String(default="")
    missing = String(default="")
    files = String(default="")
    caption = String(default="")
    rank = Int(default=0)
    selected = Int(default=0)
    beat = Int(default=0)  # counts up in the browser while the tab is open
    heard = Int(default=0)  # the last beat that came here
    dark = Bool(default=False)
    other = Bool(default=False)  # another file was opened: the page loads again


class Page:
    """The page of one tab.

    Parameters
    ----------
    explorer : Explorer
        What all tabs share.
    document : Document
        The Bokeh document of this tab.
    """

    def __init__(self, explorer: "Explorer", document: Document) -> None:
        self.explorer = explorer
        self.session = explorer.session
        self.document = document
        self.shown = Shown(name="shown")
        m, n = self.session.data.X.shape
        self.views = self._views(self.session.state)
        sides = sides_of(self.session.data)
        rows, columns = (Coordinates(side, k) for side, k in zip(sides, (m, n), strict=True))
        self.profiles = tuple(
            _profile(view, name, place)
            for view, name, place in zip(
                self.views, ("rows", "columns"), (rows, columns), strict=True
            )
        )
        self.maps = Maps(self.session.overview, rows, columns)
        self.curves = Curves()
        self._drawn = PageState()
        self._looking = self._waiting = False
        self._pieces: dict[str, tuple[Any, ...]] = {}
        self._factors: list[tuple[Side, np.ndarray]] = []  # of the solution: what is drawn of them

    def _views(self, state: PageState) -> tuple[View, View]:
        groups = self.session.groupings.get(state.group)
        return views_of(self.session.data, state.group, groups)

    @property
    def plots(self) -> list[Any]:
        """All figures."""
        return [*(p.plot for p in self.profiles), *self.maps.plots, *self.curves.plots]

    def build(self) -> None:
        """Put the page into the document and follow the session."""
        here = files("nmfmerge.explore")
        document = self.document
        document.title = f"{self.session.title} – nmfmerge"
        document.template = Template((here / "page.html").read_text("utf-8"))
        document.template_variables.update(
            style=(here / "page.css").read_text("utf-8"),
            script=(here / "page.js").read_text("utf-8"),
            edits=str(self.session.kept_in or ""),
            file=self.session.about.file or "",
        )
        self.plots[0].tags = [self.shown]
        for plot in self.plots:
            paint(plot, False)
            document.add_root(plot)
        for part in (*_PARTS, "rank", "selected", "other"):
            show = CustomJS(code=f"window.explorer.show('{part}', cb_obj.{part})")
            self.shown.js_on_change(part, show)
        self.shown.on_change("action", lambda _, __, text: self.act(text))
        self.shown.on_change("dark", lambda _, __, dark: self._paint(dark))
        self.plots[2].on_event(RangesUpdate, lambda _: self._redraw_soon())
        for profile in self.profiles:
            if profile.place.linked and profile.side.kind == "line":
                profile.plot.on_event(RangesUpdate, lambda _: self._redraw_soon())
        for plot in self.curves.plots:
            plot.on_event(Tap, lambda event: self._act("tap", event.x))
        self.shown.on_change("beat", lambda _, __, beat: self._on_beat(beat))
        forget = self.explorer.subscribe(self._soon)
        document.on_session_destroyed(lambda _: forget())
        self.draw()

    # ---- from the session to the page

    def _soon(self) -> None:
        """Draw in the thread of the server; several changes at once are drawn once."""
        if not self._waiting:
            self._waiting = True
            self.document.add_next_tick_callback(self.draw)

    def draw(self) -> None:
        """Bring the page up to what the session is now."""
        self._waiting = False
        if self.explorer.session is not self.session:
            self.shown.other = True
            return
        state, before = self.session.state, self._drawn
        self._drawn = state
        solution = state.result, state.names, state.held
        looks = (*solution, state.group)
        if state.group != before.group:
            self.views = self._views(state)
        other = state.result is not before.result or state.group != before.group
        if state.result is not None and other:
            both = zip(self.views, (state.result.W.T, state.result.H), strict=True)
            self._factors = [view.drawn(F) for view, F in both]
        self._part("heading", fragments.heading, (self.session, state), solution)
        self._part("buttons", fragments.main_buttons, (state,), None)
        self._part("cards", fragments.cards, (state, *self._drawings(state)), looks)
        self._part("tools", fragments.tools, (self.session, state), (*looks, state.selected))
        self._part("slider", fragments.slider, (state,), (state.path,))
        self._part(
            "ranks", fragments.ranks, (self.session, state), (state.path, state.start, state.edits)
        )
        self._part("fits", fits, (state,), (state.consensus, state.path, *solution, state.edits))
        merging = (*looks, state.extras, state.pair)
        self._part("pairs", fragments.pairs, (state, *self.views), merging)
        self._part("tree", _tree, (state,), (*solution, state.extras))
        self._part("missing", fragments.missing, (state, *self.views), (*looks, state.extras))
        self._part(
            "files", fragments.files, (self.session, state), (state.edits, state.note, state.path)
        )
        self.curves.show(state)
        self.shown.update(rank=len(state.names), selected=state.selected)
        if state.result is not None and state.result is not before.result:
            self._maps()
        if other or state.selected != before.selected:
            self._profiles()
        self._part("status", fragments.status, (state, self.explorer.tabs), None)  # after the rest

    def _part(
        self, name: str, make: Callable[..., str], arguments: tuple[Any, ...], uses: Any
    ) -> None:
        """Make a part of the page, unless what it uses is what it was."""
        if uses is not None:
            old = self._pieces.get(name)
            if old is not None and all(a is b or a == b for a, b in zip(old, uses, strict=True)):
                return
            self._pieces[name] = uses
        setattr(self.shown, name, make(*arguments))

    def _drawings(self, state: PageState) -> tuple[list[str], list[str]]:
        """Small drawings of all components, made once for each solution of the rank path."""
        result = state.result
        if result is None:
            return [], []
        kept, key = self.explorer.drawings, (result, state.group)
        if key not in kept:
            left, right = self._factors
            drawn = thumbs(*left, "rows"), thumbs(*right, "columns")
            if state.path is None or result not in self.session.starts.values():
                return drawn
            kept[key] = drawn
        return kept[key]

    def _maps(self) -> None:
        assert self._drawn.result is not None
        self.maps.show(self._drawn.result)
        self.shown.caption = (
            f"{self.maps.note}<span class='mouse'>Drag to zoom, scroll over an axis to zoom along "
            "it: all views move together. Double click shows everything.</span>"
            "<span class='touch'>Pinch to zoom: all views move together.</span>"
        )

    def _profiles(self) -> None:
        result, i = self._drawn.result, self._drawn.selected
        if result is not None and i < result.n_components:
            for profile, (side, F) in zip(self.profiles, self._factors, strict=True):
                profile.show(side, i, F[i])

    def _redraw_soon(self) -> None:
        """The view has changed: draw what is in it, once the user pauses."""
        if not self._looking:
            self._looking = True
            self.document.add_timeout_callback(self._redraw_window, _ZOOM_MS)

    def _redraw_window(self) -> None:
        self._looking = False
        if self._drawn.result is not None:
            self._maps()
            self._profiles()

    def _paint(self, dark: bool) -> None:
        for plot in self.plots:
            paint(plot, dark)

    # ---- from the page to the session

    def _on_beat(self, beat: int) -> None:
        """Answer a beat, by which the tab knows that it is still connected."""
        self.shown.heard = beat
        self.explorer.on_beat(self)

    def act(self, text: str) -> None:
        """Do what the page asks for: JSON with an action, arguments and the fields of a form."""
        try:
            asked = json.loads(text)
            action, arguments, fields = str(asked["action"]), [*asked["args"]], {**asked["fields"]}
        except (ValueError, TypeError, KeyError, RecursionError):
            return  # not sent by this page
        self._act(action, *arguments, **fields)

    def _act(self, action: str, /, *arguments: Any, **fields: Any) -> None:
        session, state = self.session, self.session.state
        here = state.selected
        known: dict[str, Callable[..., None]] = {
            "select": lambda i: session.select(int(i)),
            "next": lambda: session.step(1),
            "previous": lambda: session.step(-1),
            "rank": lambda rank: session.go(int(rank)),
            "tap": lambda x: session.go(round(x)),
            "rank-by": lambda by: session.go(len(state.names) + int(by)),
            "group": lambda name: session.group_by(str(name)),
            "pair": lambda i, j: session.choose_pair(int(i), int(j)),
            "merge": session.merge_pair,
            "add": lambda k=1: session.edit("add", int(k)),
            "split": lambda i=here: session.edit("split", int(i)),
            "remove": lambda i=here: session.edit("remove", int(i)),
            "hold": lambda i=here: session.toggle_hold(int(i)),
            "rename": lambda i, name: session.edit("rename", int(i), str(name).strip()),
            "polish": lambda: session.edit("polish"),
            "undo": session.undo,
            "redo": session.redo,
            "cancel": session.cancel,
            "path": lambda n_max, holdout=0: session.find_path(int(n_max), float(holdout)),
            "save": lambda folder=None, overwrite=False: session.save(folder, bool(overwrite)),
            "keep": session.keep,
            "open": lambda name: self.explorer.open(str(name)),
        }
        try:
            known[action](*arguments, **fields)
        except (KeyError, TypeError, ValueError, OverflowError) as error:  # int(inf) overflows
            session.show_note(Note(f"{action} was not understood: {error}", "error"))


def _profile(view: View, name: str, place: Coordinates) -> Profile:
    """A large drawing; it zooms with the maps, unless it is drawn along another axis."""
    if isinstance(view, GroupedCells | SortedCells):
        place = Coordinates(view.side, len(view.side.axis.values))
    return Profile(view.side, name, name, place)


def _tree(state: PageState) -> str:
    if state.extras is None or state.result is None:
        return ""
    size, unit = state.result.penalty_size, state.result.words.whole
    return tree_drawing(state.extras.tree, state.names, size, unit)
