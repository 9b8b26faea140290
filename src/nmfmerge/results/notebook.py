"""HTML of results for notebooks: a summary, the components and the stages.

Components are drawn as small lines, without a plotting library; `plot` draws them properly.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from nmfmerge.drawing.lines import highest, polyline_points
from nmfmerge.inputs.lazy import is_lazy

if TYPE_CHECKING:
    from nmfmerge.results.consensus import Consensus
    from nmfmerge.results.factorization import Factorization, Stage
    from nmfmerge.results.rank_path import RankPath

_MOST = 30  # components in a table; the others are counted
_POINTS, _WIDTH, _HEIGHT = 120, 240, 26
_STYLE = (
    "<style>.nmfmerge-result table{border-collapse:collapse;margin:.4em 0}"
    ".nmfmerge-result th,.nmfmerge-result td{padding:.1em .8em .1em 0;text-align:right;"
    "font-variant-numeric:tabular-nums;border:0;background:none}"
    ".nmfmerge-result th:first-child,.nmfmerge-result td:first-child{text-align:left}"
    ".nmfmerge-result th{font-weight:600}.nmfmerge-result svg{display:block;overflow:visible}"
    ".nmfmerge-result polyline{fill:none;stroke:currentColor;stroke-width:1;opacity:.8}</style>"
)


def factorization_html(result: "Factorization") -> str:
    """A result: its error, its components and its stages."""
    if not (is_lazy(result.W) or is_lazy(result.H)):  # else a look would compute it
        result = result.numpy()
    m, n = len(result.W), result.H.shape[1]
    starts = f", best of {len(result.starts)} starts" if result.starts else ""
    headline = (
        f"<b>{result.n_components} components</b> of a {m} × {n} matrix, fitting error "
        f"<b>{result.fitting_error:.4g} %</b> ({result.status}{starts}, {result.seconds:.3g} s)"
    )
    return _page(
        headline,
        _components(result),
        _details("Stages", stage_table(result.stages)),
    )


def path_html(path: "RankPath") -> str:
    """A path through all ranks: the assessment, and one line for each rank."""
    first = path.factorizations[0]
    headline = (
        f"<b>Ranks {path.ranks[0]} to {path.ranks[-1]}</b> of a {len(first.W)} × "
        f"{first.H.shape[1]} matrix ({path.status}, {path.seconds:.3g} s)"
    )
    said = f"<p>{escape(str(path.assess()))}</p>"
    rows = (
        (rank, f"{result.fitting_error:.4g} %", _or_dash(penalty, "{:.3g} %"),
         _or_dash(stability, "{:.2f}"), f"{seconds:.3g} s")
        for (rank, result), penalty, stability, seconds in zip(
            path.items(), path.penalties, path.stability, path.rank_seconds, strict=True
        )
    )  # fmt: skip
    table = _table(("Rank", "Fitting error", "Merge penalty", "Stability", "Time"), rows)
    return _page(headline, said, _details("All ranks", table))


def consensus_html(result: "Consensus") -> str:
    """A consensus: the assessment, and one line for each rank."""
    first = result.results[0]
    headline = (
        f"<b>Consensus at ranks {result.ranks[0]} to {result.ranks[-1]}</b> of a {len(first.W)} × "
        f"{first.H.shape[1]} matrix ({result.status}, {result.seconds:.3g} s)"
    )
    said = f"<p>{escape(str(result.assess()))}</p>"
    rows = (
        (r.n_components, r.n_fits, f"{r.fitting_error:.4g} %", f"{r.silhouette:.3f}",
         f"{r.least_silhouette:.2f}", f"{100 * r.agreement:.0f} %", r.n_outliers)
        for r in result.results
    )  # fmt: skip
    head = ("Rank", "Fits", "Fitting error", "Silhouette", "Least", "Fits that agree", "Outliers")
    return _page(headline, said, _table(head, rows))


def estimator_html(error: float, norm: str, H: np.ndarray, stages: Sequence["Stage"]) -> str:
    """A fitted estimator: its reconstruction error, its components and its stages."""
    lines = ((k + 1, sparkline(h)) for k, h in enumerate(H[:_MOST]))
    table = _table(("Component", "components_"), lines)
    headline = f"<b>{len(H)} components</b>, {norm} = <b>{error:.4g}</b>"
    return _page(headline, table + _more(len(H)), _details("Stages", stage_table(stages)))


def _components(result: "Factorization") -> str:
    shown = range(min(result.n_components, _MOST))
    columns = {"Component": [escape(result.label(k).removeprefix("component ")) for k in shown]}
    at_hand = {name: F for name, F in (("W", result.W.T), ("H", result.H)) if not is_lazy(F)}
    if len(at_hand) == 2:
        share = result.shares()
        columns["Share"] = [f"{share[k]:.3g} %" for k in shown]
    if result.starts:
        found = result.n_starts_found()
        columns["Found from"] = [f"{found[k]} of {len(result.starts)}" for k in shown]
    columns |= {name: [sparkline(F[k]) for k in shown] for name, F in at_hand.items()}
    rows = zip(*columns.values(), strict=True)
    return _table(tuple(columns), rows) + _more(result.n_components)


def stage_table(stages: Sequence["Stage"]) -> str:
    """The stages of a run."""
    rows = (
        (stage.name, stage.n_components, f"{stage.n_iter:,}", f"{stage.fitting_error:.4g} %",
         f"{stage.seconds:.3g} s", stage.status)
        for stage in stages
    )  # fmt: skip
    return _table(("Stage", "Components", "Iterations", "Fitting error", "Time", "Ended"), rows)


def sparkline(vector: np.ndarray) -> str:
    """A vector as a small line; of many entries the largest in each piece."""
    heights = np.asarray(vector, dtype=np.float64)
    if len(heights):
        heights = highest(heights[None], _POINTS)[0] / (heights.max() or 1.0)
    points = polyline_points(heights, _WIDTH, _HEIGHT)
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="component">'
        f'<polyline points="{points}"/></svg>'
    )


def _more(n: int) -> str:
    return f"<p>and {n - _MOST} more components</p>" if n > _MOST else ""


def _or_dash(value: float, form: str) -> str:
    return "–" if np.isnan(value) else form.format(value)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _details(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>{content}</details>"


def _page(headline: str, *parts: str) -> str:
    return f'<div class="nmfmerge-result">{_STYLE}<p>{headline}</p>{"".join(parts)}</div>'
