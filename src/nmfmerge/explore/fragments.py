"""The parts of the page that are text: a `PageState` goes in, HTML comes out."""

import json
from html import escape
from typing import Any

import numpy as np

from nmfmerge.api import merge_components
from nmfmerge.explore.session import Session
from nmfmerge.explore.state import OPENED, PageState
from nmfmerge.explore.thumbs import overlay, thumbs
from nmfmerge.explore.views import View
from nmfmerge.explore.words import as_percent, points, short
from nmfmerge.results.rank_path import RankPath, two_digits

N_CHEAPEST = 5  # pairs that are listed


_CLEARLY_MORE = 1.1  # times as much of a feature in the data as in the fit


def button(
    label: str, action: str, *arguments: Any, title: str = "", on: bool = True, kind: str = ""
) -> str:
    """A button that sends an action with arguments."""
    return (
        f'<button type="button" class="{kind}" data-action="{action}" '
        f'data-args="{escape(json.dumps(arguments))}" title="{escape(title)}"'
        f"{'' if on else ' disabled'}>{label}</button>"
    )


def heading(session: Session, state: PageState) -> str:
    """The data and the solution in one line."""
    m, n = session.data.X.shape
    name = escape(session.title)
    if state.result is None:
        return f"<h1>{name}</h1><p>{m} × {n}</p>"
    r = state.result.n_components
    count = f"{r} component{'s' if r != 1 else ''}"
    return (
        f"<h1>{name}</h1><p>{m} × {n} · <b>{count}</b> · fitting error "
        f"<b id='error'>{as_percent(state.result.fitting_error)}</b>"
        f"{state.result.missing_words}</p>"
    )


def status(state: PageState, tabs: int) -> str:
    """Work in progress with a way to stop it, or what happened last."""
    if state.job is not None:
        progress = f": {escape(state.job.progress)}" if state.job.progress else " …"
        stop = "stopping …" if state.job.cancelled else button("Cancel", "cancel", title="Esc")
        text = (
            f'<p class="busy" role="status"><i></i>{escape(state.job.title)}{progress} {stop}</p>'
        )
    elif state.note is not None:
        role = "alert" if state.note.kind == "error" else "status"
        text = f'<p class="{state.note.kind}" role="{role}">{escape(state.note.text)}</p>'
    else:
        text = ""
    more = (
        f"<p class='tabs'>Open in {tabs} tabs: all show the same solution.</p>" if tabs > 1 else ""
    )
    return text + more


def main_buttons(state: PageState) -> str:
    """Undo, redo, polish and save."""
    here = state.result is not None
    return "".join([
        button("↶<span> Undo</span>", "undo", on=state.can_undo,
               title="Take the last edit back (Ctrl Z)"),
        button("↷<span> Redo</span>", "redo", on=state.can_redo,
               title="Do it again (Ctrl Shift Z)"),
        button("Polish", "polish", on=here,
               title="Fit all components that are not held until they rest (P)"),
        button("Save", "save", title="Save (Ctrl S)", kind="main", on=here),
    ])  # fmt: skip


def cards(state: PageState, rows: list[str], columns: list[str]) -> str:
    """All components with their drawings, the largest share first."""
    if state.result is None or state.share is None:
        return "<p class='hint'>Components appear here when the first fits are done.</p>"
    return "".join(
        f'<button type="button" class="card" data-action="select" data-args="[{i}]">'
        f'<span class="head"><span class="name"{_name_origin(state, i)}>{escape(state.names[i])}'
        f'{_held(state, i)}</span><span class="share">{as_percent(round(state.share[i], 2))}</span>'
        f"</span>{rows[i]}{columns[i]}</button>"
        for i in state.order
    )


def _name_origin(state: PageState, i: int) -> str:
    """Where the name of a component comes from, if it was given at another rank."""
    if i not in state.carried:
        return ""
    _, start, cosine = state.carried[i]
    return f' title="named at {_start(start)}; the cosine of the two is {cosine:.2f}"'


def _start(start: int) -> str:
    return "the opened fit" if start == OPENED else f"rank {start}"


def _held(state: PageState, i: int) -> str:
    return (
        ' <span class="held" title="held: polishing does not change it">held</span>' * state.held[i]
    )


def tools(session: Session, state: PageState) -> str:
    """Name of the selected component and what can be done with it."""
    if state.result is None or state.share is None:
        return ""
    i = state.selected
    hold = "Release" if state.held[i] else "Hold"
    return (
        f'<form data-action="rename" data-args="[{i}]"><input id="name" name="name" maxlength="60" '
        f'value="{escape(state.names[i])}" aria-label="Name of the component" autocomplete="off">'
        f'<button type="submit" title="Rename (R, then Enter)">Rename</button></form>'
        f'<span class="share">{as_percent(round(state.share[i], 2))}<span class="of"> of the fit'
        "</span></span>"
        + _grouping(session, state)
        + button(hold, "hold", i, title="Keep it unchanged when the rest is polished (H)")
        + button("Split", "split", i, title="Split it in two (S)")
        + button("Remove", "remove", i, title="Remove it (Delete)")
    )  # fmt: skip


def _grouping(session: Session, state: PageState) -> str:
    """A choice of what cells are grouped by, where there is one."""
    if len(session.groupings) < 2:
        return ""
    options = "".join(
        f'<option value="{escape(name)}"{" selected" * (name == state.group)}>{escape(name)}'
        "</option>"
        for name in session.groupings
    )
    choice = f'<select id="group" data-choose="group">{options}</select>'
    return f'<label class="by">cells by {choice}</label>'


def slider(state: PageState) -> str:
    """The range of ranks to move through."""
    if state.path is None:
        return ""
    low, high = int(state.path.ranks[0]), int(state.path.ranks[-1])
    return (
        f'<label for="rank">Number of components: <output id="rank-shown"></output></label>'
        f'<input type="range" id="rank" min="{low}" max="{high}" step="1" data-input="rank">'
    )


def ranks(session: Session, state: PageState) -> str:
    """The assessment of the rank, and a form to fit more ranks."""
    most = min(session.data.X.shape)
    found = int(state.path.ranks[-1]) if state.path is not None else 0
    form = (
        '<form data-action="path" class="line"><label>Fit ranks 1 to <input type="number" '
        f'name="n_max" id="n_max" min="1" max="{most}" value="{found or min(20, most)}"></label>'
        '<label title="hide a tenth of the entries in five more paths, which predict them"><input '
        'type="checkbox" name="holdout" value="0.1"> with held-out errors</label>'
        '<button type="submit">Fit</button></form>'
    )
    if state.path is None:
        return f"<p class='hint'>Fit all ranks once, then move between them.</p>{form}"
    here = (
        f"You are looking at {len(state.edits)} edit{'s' if len(state.edits) > 1 else ''} of "
        if state.edits else "You are looking at "
    )  # fmt: skip
    kept = " Edits are kept by rank." if state.edits else ""
    hint = f"<p class='hint'>{here}{_start(state.start)}.{kept}</p>"
    return hint + assessed(state) + _held_out(state.path) + form


def _held_out(path: RankPath) -> str:
    """The rank that predicts held-out entries best, if they were hidden."""
    if np.isnan(path.held_out).all():
        return ""
    best = int(np.nanargmin(path.held_out))
    error, spread = path.held_out[best], path.held_out_error[best]
    return (
        "<p class='hint'>Dashed: error of held-out entries, least at rank "
        f"{path.ranks[best]} ({error:.4g} ± {two_digits(spread)} %). The assessment "
        "does not use it.</p>"
    )


def assessed(state: PageState) -> str:
    """The assessment of the rank, with a button to go there."""
    assessment = state.assessment
    if assessment is None:
        return ""
    go = ""
    if assessment.rank is not None and assessment.low is not None:
        rank = assessment.rank
        go = button(str(rank), "rank", rank, title="Go to this rank", kind="rank")
    return f"<div class='assessed'>{go}<span>{escape(assessment.reason)}</span></div>"


def pairs(state: PageState, left: View, right: View) -> str:
    """Matrix of pairs, the cheapest of them, and what the chosen merge would do."""
    if state.result is None:
        return ""
    if state.extras is None:
        return "<p class='hint'>Computing what each merge would cost …</p>"
    if state.result.n_components < 2:
        return "<p class='hint'>There is only one component: nothing to merge.</p>"
    return _matrix(state) + (_preview(state, left, right) if state.pair else _cheapest(state))


def _matrix(state: PageState) -> str:
    assert state.extras is not None
    change = state.extras.pairs
    order, r = state.order, len(state.order)
    here = np.isfinite(change)
    if not here.any():
        return "<p class='hint'>Held components cannot be merged: release two of them.</p>"
    floor = max(float(change[here].max()) * 1e-6, 1e-12)
    level = np.log(np.maximum(np.where(here, change, floor), floor))
    low, high = float(level[here].min()), float(level[here].max())
    strength = 1 - (level - low) / ((high - low) or 1.0)
    cells = []
    for a in range(1, r):
        for b in range(a):
            i, j = sorted((order[a], order[b]))
            if not here[i, j]:
                continue
            text = f"{state.names[i]} + {state.names[j]}: {points(change[i, j])} points"
            chosen = " chosen" if state.pair == (i, j) else ""
            cells.append(
                f'<rect class="cell{chosen}" x="{b + 0.04}" y="{a + 0.04}" width=".92" '
                f'height=".92" style="--s:{max(strength[i, j], 0):.2f}" data-action="pair" '
                f'data-args="[{i}, {j}]">'
                f"<title>{escape(text)}</title></rect>"
            )
    size = min(0.6, 0.043 * r)
    marks = "".join(
        f'<text x="{b + 0.5}" y="{b + 0.72}" style="font-size:{size:.2f}px">{order[b] + 1}</text>'
        for b in range(r)
    )
    return (
        f'<svg class="matrix" viewBox="0 0 {r} {r}" role="img" aria-label="Cost of merging each '
        f'pair">{"".join(cells)}{marks}</svg><p class="scale"><span>{points(np.exp(low))}</span>'
        f"<i></i><span>{points(np.exp(high))}</span></p><p class='hint'>Change of the fitting "
        "error, in percentage points, if two components are merged. Click a pair to see what comes "
        "out.</p>"
    )


def _cheapest(state: PageState) -> str:
    assert state.extras is not None
    change = state.extras.pairs
    lower = np.argwhere(np.tril(np.isfinite(change), -1))
    if len(lower) == 0:
        return ""
    best = sorted(lower.tolist(), key=lambda pair: change[pair[0], pair[1]])[:N_CHEAPEST]
    items = "".join(
        f"<li>{button(' + '.join(escape(short(state.names[i])) for i in p), 'pair', *p)}"
        f"<span>{points(change[p[0], p[1]])}</span></li>"
        for p in map(sorted, best)
    )
    return f"<h3>Cheapest merges</h3><ul class='cheapest'>{items}</ul>"


def _preview(state: PageState, left: View, right: View) -> str:
    assert state.result is not None
    assert state.pair is not None
    assert state.extras is not None
    i, j = state.pair
    W, H = state.result.W[:, [i, j]], state.result.H[[i, j]]
    W, H, _ = merge_components(W, H, 1, beta_loss=state.result.loss)
    rows = _merge_drawing(left, state.result.W.T, W.T, state.pair)
    columns = _merge_drawing(right, state.result.H, H, state.pair)
    before = state.result.fitting_error
    change = float(state.extras.pairs[i, j])
    names = [escape(short(state.names[k])) for k in (i, j)]
    return (
        f"<h3>Merge {names[0]} and {names[1]}?</h3><p>Fitting error {as_percent(before)} → "
        f"<b>{as_percent(before + change)}</b> ({points(change)}), before polishing.</p>"
        f"<p>{button('Merge', 'merge', title='Merge them (M)', kind='main')}"
        f"{button('Not now', 'pair', i, j, title='Put the preview away')}</p>"
        f'<p class="key"><span class="first">{names[0]}</span>'
        f'<span class="second">{names[1]}</span><span class="merged">merged</span></p>'
        f"<figure>{rows}<figcaption>{escape(left.label)}</figcaption></figure>"
        f"<figure>{columns}<figcaption>{escape(right.label)}</figcaption></figure>"
    )


def _merge_drawing(view: View, F: np.ndarray, merged: np.ndarray, pair: tuple[int, int]) -> str:
    """Two components and what they would become; F and ``merged`` have components as rows."""
    i, j = pair
    side, before = view.drawn(F)
    if side.kind == "line":
        together = view.drawn(np.vstack([F[[i, j]], merged]))[1]
        return overlay(side, together, ("first", "second", "merged"))
    side_after, after = view.drawn(np.vstack([np.delete(F, pair, axis=0), merged]))
    return "".join([
        *thumbs(side, before, "first", [i]),
        *thumbs(side, before, "second", [j]),
        *thumbs(side_after, after, "merged", [len(after) - 1]),
    ])  # fmt: skip


def missing(state: PageState, left: View, right: View) -> str:
    """Features that the data have and the solution lacks."""
    if state.result is None:
        return ""
    if state.extras is None:
        return "<p class='hint'>Looking for features that the solution lacks …</p>"
    found = state.extras.missing
    if found is None or len(found.H) == 0:
        return "<p class='hint'>There is nothing left to recover.</p>"
    first, *others = state.extras.values.tolist()
    after = ", ".join(_times(value, 3) for value in others)
    much = f"The data have <b>{_times(first, 4)}</b> times as much of it as the fit."
    if first < _CLEARLY_MORE:
        much = "Nothing is clearly missing: the data have hardly more of it than the fit."
    rows = _last(left, np.vstack([state.result.W.T, found.W.T]), "rows")
    columns = _last(right, np.vstack([state.result.H, found.H]), "columns")
    return (
        "<p class='hint'>The strongest feature that the data have and the solution lacks.</p>"
        f"<p>{much if np.isfinite(first) else 'The fit has <b>nothing</b> of it.'}</p>"
        f"<figure>{rows}<figcaption>{escape(left.label)}</figcaption></figure>"
        f"<figure>{columns}<figcaption>{escape(right.label)}</figcaption></figure>"
        f"<p>{button('Add it', 'add', 1, title='Add (A)', kind='main')}</p>"
        "<p class='hint'>It is fitted to what the others leave. Polish (P) after adding: only then "
        "do the others make room, and the fitting error says what it is worth.</p>"
        f"<p class='hint'>Its generalized singular value is {_times(first, 4)}; after it come "
        f"{after or 'no more'}.</p>"
    )


def _times(value: float, digits: int) -> str:
    return f"{value:.{digits}g}" if np.isfinite(value) else "∞"


def _last(view: View, F: np.ndarray, colour: str) -> str:
    """The last component, drawn in the scale of the others."""
    side, drawn = view.drawn(F)
    return thumbs(side, drawn, colour, [len(F) - 1])[0]


def _question(state: PageState) -> str:
    """A question to the user if saving would replace another fit; empty otherwise."""
    name = "" if state.note is None else state.note.replacing
    if not name:
        return ""
    return (
        f"<div class='question' role='alert'><p><b>{escape(name)}</b> holds another fit. "
        "Replace it? It cannot be brought back.</p><p>"
        + button("Replace it", "save", name, True, kind="main")
        + button("Keep it", "keep")
        + "</p></div>"
    )


def files(session: Session, state: PageState) -> str:
    """Edits so far, saving, and opening another file."""
    edits = "".join(f"<li>{escape(text)}</li>" for text in state.edits)
    others = "".join(
        f'<option value="{escape(name)}">{escape(name)}</option>'
        for name in session.place.openable()
    )
    return (
        f"{_question(state)}<h3>Save as</h3>"
        '<form data-action="save" class="line"><input id="folder" name="folder" '
        f'aria-label="Name of the folder" value="{escape(session.folders.proposed)}" '
        'autocomplete="off" spellcheck="false"><button type="submit">Save as</button></form>'
        f"<p class='hint'>A folder in {escape(str(session.place.folder))} with report.html, "
        "figures and tables, as <code>nmfmerge fit</code> writes them, and edits.py, which repeats "
        "the edits. The button Save, or Ctrl S, saves to the same folder again.</p>"
        f"<h3>Open</h3><form data-action='open' class='line'><select name='name' id='open' "
        f"aria-label='File or fit to open'>{others}</select><button type='submit'>Open</button>"
        f"</form><h3>Edits of this solution</h3>"
        + (f"<ol class='edits'>{edits}</ol>" if edits else "<p class='hint'>None yet.</p>")
    )
