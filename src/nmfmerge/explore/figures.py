"""The large figures, in Bokeh: the selected component, the data beside the fit, and the ranks."""

from typing import Any

import matplotlib as mpl
import numpy as np
from bokeh.models import (
    BoxZoomTool,
    ColumnDataSource,
    CrosshairTool,
    DataRange1d,
    FactorRange,
    HoverTool,
    LinearColorMapper,
    NoOverlap,
    PanTool,
    Range1d,
    ResetTool,
    Span,
    WheelZoomTool,
)
from bokeh.plotting import figure
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_hex

from nmfmerge.drawing.lines import envelope
from nmfmerge.explore.reduce import Overview, product_window
from nmfmerge.explore.state import PageState
from nmfmerge.plot.reconstruction import FROM_WHITE, span, spread
from nmfmerge.plot.side import Side
from nmfmerge.plot.style import shortened
from nmfmerge.results.factorization import Factorization

N_BARS = 24
PIXELS = 320  # of a side of a picture that is sent
_POINTS = 1200
_TICKS = 4  # about so many across a map, which is narrow
_APART = 6  # pixels between two labels of an axis
_COLOURS = {  # light, dark
    "text": ("#5c626b", "#a3a9b3"),
    "rows": ("#23598c", "#7db4e6"),
    "columns": ("#b3263e", "#f0899b"),
    "mark": ("#22252a", "#e6e4df"),
    "grid": ("#e6e3dd", "#2d3138"),
}
_FROM_DARK = LinearSegmentedColormap.from_list(
    "from dark", ["#1e2126", "#4b2566", "#a3316f", "#e8734f", "#fde3b8"]
)
_DARK_MIDDLE = LinearSegmentedColormap.from_list(
    "dark middle", ["#8cc7ff", "#3c7fb8", "#1e2126", "#c4553f", "#ffa98f"]
)


def _palette(colours: Colormap) -> list[str]:
    return [to_hex(colours(i / 255)) for i in range(256)]


PALETTES = {
    "values": (_palette(FROM_WHITE), _palette(_FROM_DARK)),
    "residual": (_palette(mpl.colormaps["RdBu_r"]), _palette(_DARK_MIDDLE)),
    "picture": (_palette(mpl.colormaps["cividis"]),) * 2,
}


def _blank(name: str, **settings: Any) -> Any:
    """A figure without a frame, with the tools for looking around."""
    plot = figure(
        name=name, tools=[], toolbar_location=None, sizing_mode="stretch_both",
        background_fill_color=None, border_fill_color=None, outline_line_color=None,
        min_border=4, min_border_right=14, **settings,
    )  # fmt: skip
    pan, wheel, box = PanTool(), WheelZoomTool(zoom_on_axis=True), BoxZoomTool()
    plot.add_tools(box, pan, wheel, ResetTool())
    plot.toolbar.active_drag = box
    plot.toolbar.active_scroll = wheel
    for axis in plot.axis:
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = axis.major_label_text_font_size = "11px"
        axis.axis_label_standoff = 3
        axis.minor_tick_line_color = None
        axis.major_tick_in = 0
        axis.major_tick_out = 4
        axis.major_label_policy = NoOverlap(min_distance=_APART)
    plot.title.text_font_size = "12px"
    plot.title.text_font_style = "normal"
    return plot


def paint(plot: Any, dark: bool) -> None:
    """Give a figure the colours of the light or the dark page."""
    text, grid = (_COLOURS[name][dark] for name in ("text", "grid"))
    for axis in plot.axis:
        axis.axis_line_color = axis.major_tick_line_color = text
        axis.axis_label_text_color = axis.major_label_text_color = text
    plot.grid.grid_line_color = grid
    plot.title.text_color = text
    for renderer in plot.renderers:
        glyph = renderer.glyph
        for tag in renderer.tags:
            if tag in PALETTES:
                glyph.color_mapper.palette = PALETTES[tag][dark]
            elif tag in _COLOURS:
                for name in ("line_color", "fill_color"):
                    if hasattr(glyph, name):
                        setattr(glyph, name, _COLOURS[tag][dark])
    for mark in plot.center:
        if isinstance(mark, Span):
            mark.line_color = _COLOURS["mark"][dark]


class Coordinates:
    """Coordinates along one side of X: its values if evenly spaced, else indices."""

    def __init__(self, side: Side, length: int) -> None:
        self.length = length
        even = span(side)
        self.linked = even is not None
        self.low, self.high = even or (0.5, length + 0.5)
        self.label = side.label if even else shortened(f"{side.axis.name} number", 44)
        self.range = Range1d(self.low, self.high, bounds=(self.low, self.high))
        if side.kind != "line":  # first row at the top
            self.range = Range1d(self.low, self.high)

    def at(self, index: Any) -> Any:
        """The coordinate of the edge before an index."""
        return self.low + (self.high - self.low) * np.asarray(index) / self.length

    def shown(self) -> tuple[int, int]:
        """Indices in view: first, and the one after the last."""
        ends = sorted((self.range.start, self.range.end))
        if not np.isfinite(ends).all():
            return 0, self.length
        unit = (self.high - self.low) / self.length
        first = int(np.clip(np.floor((ends[0] - self.low) / unit), 0, self.length - 1))
        last = int(np.clip(np.ceil((ends[1] - self.low) / unit), first + 1, self.length))
        return first, last


class Profile:
    """One vector of the selected component, large: a line, bars or a picture."""

    def __init__(self, side: Side, name: str, colour: str, place: Coordinates) -> None:
        self.side, self.place = side, place
        self.source = ColumnDataSource()
        self.plot = {"line": self._line, "bars": self._bars, "picture": self._picture}[side.kind](
            name, colour
        )

    def _line(self, name: str, colour: str) -> Any:
        values = np.asarray(self.side.axis.values)
        self._dates = values.dtype.kind == "M"
        self._order = np.argsort(values, kind="stable")
        self._x = values[self._order]
        if not self._dates:
            self._x = self._x.astype(np.float64)
        self.source.data = {"x": [], "y": []}
        shared = {"x_range": self.place.range} if self.place.linked else {}
        plot = _blank(name, **shared,
                      **({"x_axis_type": "datetime"} if self._dates else {}))  # fmt: skip
        plot.varea("x", 0, "y", source=self.source, fill_alpha=0.15).tags = [colour]
        plot.line("x", "y", source=self.source, line_width=1.4).tags = [colour]
        _only_shape(plot, self.side)
        return plot

    def _bars(self, name: str, colour: str) -> Any:
        self.source.data = {"x": [], "y": []}
        plot = _blank(name, x_range=FactorRange())
        plot.vbar("x", top="y", width=0.8, source=self.source, line_color=None).tags = [colour]
        plot.xaxis.major_label_orientation = "vertical"
        plot.xaxis.major_label_policy = NoOverlap(min_distance=0)  # each bar has its name if it can
        _only_shape(plot, self.side)
        plot.add_tools(HoverTool(tooltips=[("", "@name"), ("", "@y")]))
        return plot

    def _picture(self, name: str, colour: str) -> Any:
        self.source.data = {"image": [], "dw": [], "dh": []}
        across, down = DataRange1d(range_padding=0), DataRange1d(range_padding=0, flipped=True)
        plot = _blank(name, x_range=across, y_range=down, match_aspect=True)  # needs data ranges
        plot.toolbar.active_drag.match_aspect = True  # a zoom, too, keeps pixels square
        plot.axis.visible = False
        plot.grid.visible = False
        mapper = LinearColorMapper(low=0, high=255, palette=PALETTES["picture"][0])
        plot.image("image", x=0, y=0, dw="dw", dh="dh", source=self.source,
                   color_mapper=mapper).tags = ["picture"]  # fmt: skip
        return plot

    def show(self, side: Side, k: int, vector: np.ndarray) -> None:
        """Draw component k, reduced to what can be seen; its side knows which names to list."""
        vector = np.asarray(vector, dtype=np.float64)
        if side.kind == "line":
            self._show_line(vector)
        elif side.kind == "bars":
            self._show_bars(side, k, vector)
        else:
            self._show_picture(side, vector)

    def _show_bars(self, side: Side, k: int, vector: np.ndarray) -> None:
        """All names if they are few, else those most specific to the component."""
        few = len(vector) <= 2 * N_BARS
        top = np.arange(len(vector)) if few else side.entries(k, vector, N_BARS)
        names = [str(side.axis.values[i]) for i in top]
        labels = [f"{shortened(name, 18)}{chr(8203) * place}" for place, name in enumerate(names)]
        self.plot.xaxis.axis_label = side.label if few else f"most specific: {side.label}"
        self.plot.x_range.factors = labels
        self.source.data = {"x": labels, "y": vector[top], "name": names}

    def _show_picture(self, side: Side, vector: np.ndarray) -> None:
        assert side.fold is not None
        picture = side.fold(vector)
        largest = float(picture.max(initial=0)) or 1.0
        self.source.data = {
            "image": [np.rint(255 * picture / largest).astype(np.uint8)],
            "dw": [picture.shape[1]], "dh": [picture.shape[0]],
        }  # fmt: skip

    def _show_line(self, vector: np.ndarray) -> None:
        x, y = self._x, vector[self._order]
        if self.place.linked:
            first, last = self.place.shown()
            margin = last - first
            part = slice(max(0, first - margin), last + margin)
            x, y = x[part], y[part]
        x, y = envelope(x, y, _POINTS)
        self.source.data = {"x": x, "y": y}


class Maps:
    """Data, reconstruction and residual, side by side, zoomed together."""

    def __init__(self, overview: Overview, rows: Coordinates, columns: Coordinates) -> None:
        self.overview, self.rows, self.columns = overview, rows, columns
        self.sources = [ColumnDataSource(data=_no_picture()) for _ in range(3)]
        self.plots = []
        kinds = ("values", "values", "residual")
        for name, kind, source in zip(("data", "fit", "rest"), kinds, self.sources, strict=True):
            plot = _blank(name, x_range=columns.range, y_range=rows.range)
            plot.grid.visible = False
            mapper = LinearColorMapper(low=0, high=255, palette=PALETTES[kind][0])
            plot.image("image", x="x", y="y", dw="dw", dh="dh", source=source,
                       color_mapper=mapper).tags = [kind]  # fmt: skip
            plot.xaxis.axis_label = columns.label
            plot.xaxis.ticker.desired_num_ticks = _TICKS
            if name == "data":
                plot.yaxis.axis_label = rows.label
            else:
                plot.yaxis.major_label_text_font_size = "0px"
            plot.add_tools(CrosshairTool(line_alpha=0.4))
            self.plots.append(plot)
        self.note = ""
        self._window: Any = None

    def show(self, result: Factorization) -> None:
        """Draw the part in view; the data only when the view has changed."""
        window = self.rows.shown(), self.columns.shown()
        if self._window != window:
            self._window = window
            self._fill(*self.overview.window(*window, PIXELS))
        WH = product_window(result.W, result.H, *self._edges)
        rest = self._X - self.overview.fit(result.W, result.H, *self._edges)
        most = spread(rest)
        self._put(1, self._scaled(WH))
        self._put(2, np.clip(0.5 + rest / (2 * most), 0, 1))
        self.plots[2].title.text = f"Residual: ±{most:.2g}"

    def _fill(self, X: np.ndarray, row_edges: np.ndarray, column_edges: np.ndarray) -> None:
        self._X, self._edges = X, (row_edges, column_edges)
        seen = X[~np.isnan(X)]
        self._top = float(seen.max(initial=0)) or 1.0
        self._root = bool(len(seen) and np.quantile(seen, 0.75) < 0.05 * self._top)
        self._put(0, self._scaled(X))
        self.plots[0].title.text = f"Data: 0 to {self._top:,.4g}"
        self.plots[1].title.text = "Reconstruction"
        self.note = "Colours go with the square root of the value. " if self._root else ""
        self.note += "Nothing was observed where it is grey. " if len(seen) < X.size else ""

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        part = np.clip(values / self._top, 0, 1)
        return np.sqrt(part) if self._root else part

    def _put(self, place: int, part: np.ndarray) -> None:
        picture = np.rint(255 * part)
        if not np.isnan(picture).any():  # which has a colour of its own
            picture = picture.astype(np.uint8)
        self.sources[place].data = self._box(*self._edges) | {"image": [picture]}

    def _box(self, row_edges: np.ndarray, column_edges: np.ndarray) -> dict[str, list[float]]:
        y0, y1 = self.rows.at(row_edges[[0, -1]]).tolist()
        x0, x1 = self.columns.at(column_edges[[0, -1]]).tolist()
        return {"x": [x0], "y": [y0], "dw": [x1 - x0], "dh": [y1 - y0]}


class Curves:
    """Fitting error and merge penalty at each rank, with the assessed rank and the one shown."""

    def __init__(self) -> None:
        columns = ("rank", "error", "penalty", "held_out", "low", "high")
        self.source, self.assessed = (
            ColumnDataSource(data={name: [] for name in columns}) for _ in range(2)
        )
        self.marks = []
        ranks = Range1d(0, 1)
        self.plots = []
        for name, label in (("error", "fitting error (%)"), ("penalty", "merge penalty (%)")):
            plot = _blank(f"curve-{name}", x_range=ranks, y_axis_type="log", visible=False)
            plot.line("rank", name, source=self.source, line_width=1.5).tags = ["rows"]
            plot.scatter("rank", name, source=self.source, size=5).tags = ["rows"]
            plot.scatter("rank", name, source=self.assessed, size=13, fill_alpha=0,
                         line_width=2.2).tags = ["columns"]  # fmt: skip
            plot.yaxis.axis_label = label
            plot.xaxis.ticker.min_interval = 1
            plot.y_range.range_padding = 0.25  # room for the rings
            plot.toolbar.active_drag = None
            plot.toolbar.active_scroll = None
            plot.add_tools(
                HoverTool(tooltips=[("components", "@rank"), (label, f"@{name}{{0.0000}}")])
            )
            mark = Span(location=0, dimension="height", line_dash="dashed", line_width=1.2)
            plot.add_layout(mark)
            self.marks.append(mark)
            self.plots.append(plot)
        for line in (
            self.plots[0].line("rank", "held_out", source=self.source, line_dash="dashed"),
            self.plots[0].segment("rank", "low", "rank", "high", source=self.source),
        ):
            line.tags = ["rows"]
        self.plots[1].xaxis.axis_label = "number of components"
        self._range = ranks
        self._path: Any = None

    def show(self, state: PageState) -> None:
        """Draw the rank path, and mark the current solution."""
        if state.path is not None and state.path is not self._path:
            self._path = state.path
            rank = np.asarray(state.path.ranks)
            path, spread = state.path, state.path.held_out_error
            curves = {
                "error": path.fitting_errors, "penalty": path.penalties,
                "held_out": path.held_out, "low": path.held_out - spread,
                "high": path.held_out + spread,
            }  # fmt: skip
            drawn = {k: np.where(np.asarray(v) > 0, v, np.nan) for k, v in curves.items()}
            ends = drawn["low"], drawn["high"], drawn["held_out"], drawn["error"]
            lowest = np.fmin.reduce(np.concatenate(ends))  # zero is nowhere on the axis
            drawn["low"] = np.where(curves["low"] > 0, drawn["low"], lowest)
            self.source.data = {"rank": rank, **drawn}
            marked = rank == _assessed_rank(state)
            self.assessed.data = {k: v[marked] for k, v in self.source.data.items()}
            for plot in self.plots:
                plot.visible = True
            self._range.update(start=float(rank[0]) - 0.5, end=float(rank[-1]) + 0.5)
        for mark in self.marks:
            mark.location = float(len(state.names))


def _assessed_rank(state: PageState) -> int | None:
    """The assessed rank; None where none stands out."""
    assessment = state.assessment
    return None if assessment is None or assessment.low is None else assessment.rank


def _only_shape(plot: Any, side: Side) -> None:
    """Name the axis of a profile; its height has no unit, since W and H share their scale."""
    plot.xaxis.axis_label = side.label
    plot.yaxis.visible = False
    plot.grid.visible = False
    plot.y_range.start = 0


def _no_picture() -> dict[str, list]:
    return {"image": [], "x": [], "y": [], "dw": [], "dh": []}
