"""The tab on the fits of a consensus: how they agree at each rank, and on each component."""

from collections.abc import Iterable, Sequence
from html import escape

from nmfmerge.explore.fragments import assessed, button
from nmfmerge.explore.state import OPENED, PageState
from nmfmerge.explore.words import as_percent
from nmfmerge.results.consensus import Consensus


def fits(state: PageState) -> str:
    """The ranks of the consensus, to go to, and the components of the one that is shown."""
    result = state.consensus
    if result is None:
        return (
            "<p class='hint'>Open a folder of <code>nmfmerge consensus</code> to see here how many "
            "fits agree on each component.</p>"
        )
    return assessed(state) + _ranks(state, result) + _components(state, result)


def _ranks(state: PageState, result: Consensus) -> str:
    can_go = state.path is None  # else the ranks are those of the path
    rows = (
        (
            button(str(r), "rank", r, title="Go to this rank", kind="rank") if can_go else str(r),
            f"{at.silhouette:.2f}",
            f"{at.least_silhouette:.2f}",
            f"{100 * at.agreement:.0f} %",
            as_percent(at.fitting_error),
        )
        for r, at in zip(result.ranks, result.results, strict=True)
    )
    return _table(("Rank", "Silhouette", "Least", "Fits that agree", "Error"), rows)


def _components(state: PageState, result: Consensus) -> str:
    """How often each component was found, unless edits have changed them."""
    rank = len(state.names)
    if state.edits or rank not in result or (state.start != OPENED and state.path is not None):
        return ""
    at = result.at(rank)
    found = at.n_found()
    rows = (
        (escape(state.names[k]), f"{at.silhouettes[k]:.2f}", f"{found[k]} of {at.n_fits}")
        for k in state.order
    )
    return _table(("Component", "Silhouette", "Found in fits"), rows)


def _table(head: tuple[str, ...], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table class='fits'><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
