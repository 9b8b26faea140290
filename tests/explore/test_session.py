"""The session, without a page and without a browser."""

import re
import threading
from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import datasets, metrics, nmf
from nmfmerge.explore import session as session_module
from nmfmerge.explore.job import Job
from nmfmerge.explore.session import Session
from tests.explore.conftest import done

# ---- looking


def test_components_are_ordered_by_share(session):
    share = session.state.share[list(session.state.order)]
    assert np.all(np.diff(share) <= 0)
    assert session.state.selected == session.state.order[0]
    assert session.state.names == tuple(f"Component {i}" for i in range(1, 6))


def test_stepping_goes_round_in_the_order_of_shares(session):
    seen = [session.state.selected]
    for _ in range(5):
        session.step(1)
        seen.append(session.state.selected)
    assert tuple(seen[:5]) == session.state.order
    assert seen[5] == seen[0]
    session.step(-1)
    assert session.state.selected == session.state.order[-1]


@pytest.mark.parametrize("i", [-1, 5, 100])
def test_components_that_are_not_there_cannot_be_selected(session, i):
    before = session.state.selected
    session.select(i)
    assert session.state.selected == before


@pytest.mark.parametrize("pair", [(0, 0), (-1, 2), (1, 5), (7, 9)])
def test_pairs_that_are_not_there_cannot_be_chosen(session, pair):
    session.choose_pair(*pair)
    assert session.state.pair is None


def test_choosing_a_pair_twice_puts_it_away(session):
    session.choose_pair(3, 1)
    assert session.state.pair == (1, 3)
    session.choose_pair(1, 3)
    assert session.state.pair is None


# ---- editing


def test_the_cheapest_merge_costs_what_was_shown(session):
    session.choose_cheapest_pair()
    i, j = session.state.pair
    shown = session.state.extras.pairs[i, j]
    assert shown == np.nanmin(session.state.extras.pairs)
    before = session.state.result.fitting_error
    session.merge_pair()
    note = done(session)
    after = session.state.result.fitting_error
    assert after - before == pytest.approx(shown, rel=1e-6)
    assert f"{before:.4g} % → {after:.4g} %" in note.text
    assert session.state.result.n_components == 4
    assert session.state.pair is None
    assert session.state.extras.pairs.shape == (4, 4)


EDITS = [("merge", 0, 3), ("split", 1), ("remove", 2), ("hold", 0), ("rename", 4, "glucose"),
         ("add", 1), ("polish",)]  # fmt: skip


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit[0])
def test_every_edit_tells_the_error_before_and_after_and_can_be_undone(session, edit):
    before = session.state
    session.edit(*edit)
    note = done(session)
    assert note.kind == "done", note.text
    first, second = before.result.fitting_error, session.state.result.fitting_error
    if f"{first:.4g}" == f"{second:.4g}":
        assert f"fitting error {second:.4g} %, unchanged" in note.text
    else:
        assert f"fitting error {first:.4g} % → {second:.4g} %" in note.text
    assert session.state.can_undo
    assert len(session.state.edits) == 1
    session.undo()
    done(session)
    np.testing.assert_array_equal(session.state.result.W, before.result.W)
    np.testing.assert_array_equal(session.state.result.H, before.result.H)
    assert session.state.names == before.names
    assert session.state.held == before.held
    assert session.state.can_redo
    session.redo()
    done(session)
    assert session.state.result.fitting_error == second


def test_edits_are_told_with_the_names_they_had(session):
    for edit in (("rename", 0, "glucose"), ("merge", 0, 1), ("undo",), ("hold", 1)):
        session.edit(*edit)
        done(session)
    assert session.state.edits == ("Renamed Component 1 to glucose", "Held Component 2")
    session.undo()
    done(session)
    session.redo()
    done(session)
    assert session.state.edits[-1] == "Held Component 2"


def test_adding_says_what_to_do_next_whether_or_not_the_error_changes(session, page_of):
    session.edit("add", 1)
    text = done(session).text
    assert re.match(r"Added a missing feature: fitting error .* %.*\. Polish \(P\) to fit it", text)
    assert session.state.edits == ("Added a missing feature",)
    assert "Polish (P) after adding" in page_of(session).shown.missing


def test_a_feature_that_the_fit_lacks_entirely_is_told_in_words(session, page_of):
    session._update(extras=replace(session.state.extras, values=np.array([np.inf, np.inf, 1.0])))
    text = page_of(session).shown.missing
    assert "The fit has <b>nothing</b> of it." in text
    assert "after it come ∞, 1." in text
    assert "inf" not in text


def test_holding_twice_releases(session):
    for held in (True, False):
        session.toggle_hold(2)
        done(session)
        assert session.state.held == (False, False, held, False, False)


def test_the_selected_component_stays_selected_when_another_goes(session):
    session.select(4)
    w = session.state.result.W[:, 4]
    session.edit("remove", 1)
    done(session)
    np.testing.assert_array_equal(session.state.result.W[:, session.state.selected], w)


def test_an_edit_that_fails_changes_nothing_and_says_why(session):
    before = session.state
    session.edit("merge", 0, 99)
    note = done(session)
    assert note.kind == "error"
    assert "failed" in note.text
    np.testing.assert_array_equal(session.state.result.W, before.result.W)


def test_undo_and_redo_with_nothing_to_do_do_nothing(session):
    before = session.state
    session.undo()
    session.redo()
    assert session.state is before


def test_recovered_features_are_shown_as_they_would_be_added(session):
    missing = session.state.extras.missing
    session.edit("add", 1)
    done(session)
    w = session.state.result.W[:, -1]
    shown = missing.W[:, 0]
    cosine = w @ shown / (np.linalg.norm(w) * np.linalg.norm(shown))
    assert cosine == pytest.approx(1, abs=1e-6)


# ---- long work


def test_work_can_be_cancelled_and_a_second_one_waits(data, monkeypatch):
    began, go_on = threading.Event(), threading.Event()

    def slow(X, n_max, *, callback, **given):
        began.set()
        assert go_on.wait(10)
        assert callback(
            type("Progress", (), {"iteration": 3, "stage": "down to 4"})()
        )  # the user has cancelled
        raise ValueError("stopped in the middle")

    monkeypatch.setattr(session_module, "rank_path", slow)
    session = Session(data, nmf(data.X, 3, tol=1e-2))
    session.find_path(5)
    assert began.wait(10)
    assert session.state.job.title == "Fitting ranks 1 to 5"
    session.edit("polish")
    assert session.state.note.text == "Fitting ranks 1 to 5: wait until it is done, or cancel it."
    session.select(1)  # looking goes on
    assert session.state.selected == 1
    session.cancel()
    assert session.state.job.cancelled
    go_on.set()
    done(session)
    assert session.state.result.n_components == 3
    session.edit("polish")
    assert done(session).text.startswith("Polished")
    session.close()


def test_a_polish_that_is_cancelled_keeps_what_it_has_reached(data, monkeypatch):
    session = Session(data, nmf(data.X, 5, init="random", tol=0.5))
    before = session.state.result.fitting_error
    monkeypatch.setattr(Job, "cancelled", True)
    session.edit("polish")
    note = done(session)
    assert note.text.startswith("Polished (stopped early)")
    assert session.state.result.fitting_error <= before
    session.close()


def test_all_listeners_hear_of_a_change_until_they_leave(session):
    heard = []
    leave = [session.subscribe(lambda k=k: heard.append(k)) for k in range(2)]
    session.select(1)
    leave[0]()
    session.select(2)
    assert heard == [0, 1, 1]


# ---- another loss


def test_a_fit_by_another_loss_is_adjusted_by_that_loss():
    rng = np.random.default_rng(0)
    W, H = rng.gamma(0.3, size=(40, 4)), rng.gamma(0.3, size=(4, 50))
    counts = rng.poisson(20 * W @ H / (W @ H).mean()).astype(float)
    data = replace(datasets.lcms_like(40, 50, 4), X=counts, W=None, H=None)
    start = nmf(counts, 5, tol=1e-3, beta_loss="kullback-leibler")
    session = Session(data, start)
    session.wait()
    try:
        assert session.state.share == pytest.approx(
            metrics.shares(start.W, start.H, beta_loss="kullback-leibler")
        )
        shown = session.state.extras.pairs[0, 1]
        before = session.state.result.fitting_error
        session.edit("merge", 0, 1)
        done(session)
        result = session.state.result
        assert result.loss == "kullback-leibler"
        assert result.fitting_error - before == pytest.approx(shown, rel=1e-6)
        session.find_path(5)
        done(session)
        assert {fit.loss for fit in session.state.path.values()} == {"kullback-leibler"}
    finally:
        session.close()
