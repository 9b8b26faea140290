"""The section of the components: each of them drawn, and all of them in a table."""

from collections.abc import Iterable
from html import escape

import numpy as np

from nmfmerge.plot.side import Side, sides
from nmfmerge.report.markup import paragraph, table
from nmfmerge.report.sections import ReportContext
from nmfmerge.report.strips import Strips, script_data
from nmfmerge.report.words import count
from nmfmerge.results.factorization import Factorization

OPEN = 24  # components that are open to see at once; the others are one click away
_N_NAMES = 5


def components(context: ReportContext) -> str:
    """Every component, drawn and in numbers."""
    result, data = context.result, context.data
    if result.n_components == 0:
        return paragraph("There are no components.")
    both = sides(result, data)
    share = result.shares()
    order = np.argsort(-share, kind="stable").tolist()
    left, right = Strips(both[0], 0), Strips(both[1], 1)
    drawn = [_component(result, k, share[k], left, right) for k in order]
    return (
        paragraph(_caption(result, both))
        + _heads(both)
        + _group(drawn[:OPEN])
        + _more(drawn[OPEN:], 100 - float(share[order[:OPEN]].sum()))
        + script_data(left, right)
        + _table(result, share, order, both)
    )


def _caption(result: Factorization, both: tuple[Side, Side]) -> str:
    named = "named" if result.names else "numbered as the columns of W, from 1,"
    return (
        "Each component is a column of W, on the left, and a row of H, on the right, each drawn to "
        f"its own largest value. Components are {named} and sorted by their share of the fit, "
        f"which is that of {result.words.share_of}.{_marks(both)}{_bands(result, both)}"
    )


def _marks(both: tuple[Side, Side]) -> str:
    """Notes on how to read the drawings."""
    said = ""
    for side in both:
        if side.sticks:
            said += f" Numbers at the sticks are the {side.axis.name} of the largest peaks."
    if any(side.kind == "picture" for side in both):
        said += " Maps go from zero (dark) to the largest value (light), with an outline at half."
    if any(side.kind == "bars" for side in both):
        said += " Bars are what is specific to a component: large in it, and larger than in others."
    return said


def _bands(result: Factorization, both: tuple[Side, Side]) -> str:
    """The meaning of bands and whiskers, if any are drawn."""
    if result.spread is None or all(side.kind == "picture" for side in both):
        return ""
    return (
        " The bands around lines (whiskers on bars) are ± the standard deviation over the starts, "
        "whose components were matched with these and scaled to their size; where they cannot be "
        "seen, the starts agree."
    )


def _heads(both: tuple[Side, Side]) -> str:
    heads = (f"<span>{F}: {escape(side.label)}</span>" for F, side in zip("WH", both, strict=True))
    kinds = " ".join(f"{F}-{side.kind}" for F, side in zip("wh", both, strict=True))
    return f'<div class="sides heads {kinds}" aria-hidden="true">{"".join(heads)}</div>'


def _component(
    result: Factorization, k: int, share: float, left: Strips, right: Strips
) -> str:  # fmt: skip
    label = result.label(k)
    title = label[:1].upper() + label[1:]
    w, h, spread = result.W[:, k], result.H[k], result.spread
    kinds = f"w-{left.side.kind} h-{right.side.kind}"
    around_w, around_h = (None, None) if spread is None else (spread.W[:, k], spread.H[k])
    drawn = left.draw(k, w, around_w, _alt(left.side, k, w, label, "W"))
    drawn += right.draw(k, h, around_h, _alt(right.side, k, h, label, "H"))
    return (
        f'<article class="component" id="component-{k + 1}">'
        f"<h3>{escape(title)} <small>{_share(share)}</small></h3>"
        f'<div class="sides {kinds}">{drawn}</div></article>'
    )


def _alt(side: Side, k: int, vector: np.ndarray, label: str, factor: str) -> str:
    """A description of a drawing."""
    if not np.any(vector):
        return f"{factor} of {label} is zero"
    return f"{factor} of {label} along {side.axis.label}; {_verb(side)} {_peak(side, k, vector)}"


def _group(drawn: Iterable[str]) -> str:
    return f'<div class="components">{"".join(drawn)}</div>'


def _more(drawn: list[str], rest: float) -> str:
    if not drawn:
        return ""
    noun = "one component" if len(drawn) == 1 else f"other {count(len(drawn), 'component')}"
    return (
        f'<details class="more"><summary>Show the {noun} ({_share(max(rest, 0.0))} of the fit '
        f"together)</summary>{_group(drawn)}</details>"
    )


def _table(
    result: Factorization, share: np.ndarray, order: list[int], both: tuple[Side, Side]
) -> str:
    left, right = both
    rows = (
        (
            result.names[k] if result.names else k + 1,
            _share(share[k]),
            _peak(left, k, result.W[:, k]),
            _peak(right, k, result.H[k]),
            _zeros(result.W[:, k]),
            _zeros(result.H[k]),
        )
        for k in order
    )
    head = (
        "Name" if result.names else "Number", "Share of the fit", _head(left), _head(right),
        "Zeros in W", "Zeros in H",
    )  # fmt: skip
    words = [0, *(i for i, side in ((2, left), (3, right)) if side.kind == "bars")]
    return table(head, rows, "Components by share of the fit", text=words)


def _head(side: Side) -> str:
    return f"Most specific: {side.axis.name}" if side.kind == "bars" else f"Peak: {side.axis.name}"


def _share(share: float) -> str:
    return f"{share:.2f} %" if share >= 0.01 or share == 0 else "< 0.01 %"


def _verb(side: Side) -> str:
    return "most specific are" if side.kind == "bars" else "largest at"


def _peak(side: Side, k: int, vector: np.ndarray) -> str:
    """Where component k is largest; of names, the few that are most specific to it."""
    if not np.any(vector):
        return "–"
    if side.kind == "bars":
        top = [i for i in side.entries(k, vector, _N_NAMES).tolist() if vector[i] > 0]
        return ", ".join(side.place(i) for i in top)
    return side.place(int(np.argmax(vector)))


def _zeros(vector: np.ndarray) -> str:
    return f"{100 * np.mean(vector == 0):.0f} %"
