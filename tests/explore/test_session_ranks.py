"""The solutions of all ranks in one session, and names that go from one to another."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nmfmerge.explore.names import carried_names
from nmfmerge.metrics import SAME_COMPONENT
from nmfmerge.results.factorization import Factorization
from nmfmerge.solvers.history import Status
from nmfmerge.storage import folder
from tests.explore.conftest import done


def test_edits_of_a_rank_are_there_when_one_comes_back(opened):
    opened.go(4)
    done(opened)
    opened.edit("rename", 0, "glucose")
    done(opened)
    opened.go(3)
    done(opened)
    assert opened.state.edits == ()
    opened.go(4)
    done(opened)
    assert opened.state.names[0] == "glucose"
    assert opened.state.can_undo


def cosine(first, i, second, j):
    """w·w' h·h' of two components, over their norms."""
    parts = [(first.W[:, i], second.W[:, j]), (first.H[i], second.H[j])]
    return np.prod([a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for a, b in parts])


def test_names_go_to_the_matching_component_of_another_rank_and_stay(opened):
    opened.go(4)
    for i in range(4):
        opened.edit("rename", i, f"compound {i}")
        done(opened)
    named = opened.state
    opened.go(5)
    matched = {
        i: j
        for i in range(4)
        for j in range(5)
        if cosine(named.result, i, opened.state.result, j) >= SAME_COMPONENT
    }
    assert matched  # else this test shows nothing
    for j, name in enumerate(opened.state.names):
        names = [f"compound {i}" for i, k in matched.items() if k == j]
        assert name == (names[0] if names else f"Component {j + 1}")
    assert opened.state.edits == ()  # that is no edit
    assert not opened.state.can_undo
    assert opened.result.names[matched[0]] == "compound 0" or 0 not in matched
    opened.go(3)
    opened.go(4)
    assert opened.state.names == named.names
    assert opened.state.edits == named.edits


def test_a_name_that_is_undone_is_gone_at_other_ranks_too(opened):
    opened.go(5)
    i = opened.state.order[0]
    opened.edit("rename", i, "glucose")
    done(opened)
    opened.edit("undo")
    done(opened)
    for rank in (4, 3, 5):
        opened.go(rank)
        assert "glucose" not in opened.state.names


def with_a_carried_name(session):
    """Go from 5, where a component is named, to 4; its number there."""
    session.go(4)
    target = session.state.result
    session.go(5)
    best = max(
        ((i, j) for i in range(5) for j in range(4)),
        key=lambda pair: cosine(session.state.result, pair[0], target, pair[1]),
    )
    session.edit("rename", best[0], "glucose")
    done(session)
    session.go(4)
    assert session.state.names[best[1]] == "glucose"
    return best[1]


def test_a_carried_name_is_part_of_what_is_edited_and_saved(opened, file, monkeypatch):
    j = with_a_carried_name(opened)
    opened.edit("hold", j)
    done(opened)
    assert opened.state.edits == ("Held glucose",)
    assert opened.state.result.names[j] == "glucose"
    opened.save("mine.nmf")
    done(opened)
    assert folder.read(file.parent / "mine.nmf").result.names[j] == "glucose"


def test_a_name_that_comes_after_the_edits_is_saved_too(opened, file, monkeypatch):
    opened.go(4)
    opened.edit("polish")
    done(opened)
    j = with_a_carried_name(opened)
    assert opened.state.edits == ("Polished",)
    opened.save("mine.nmf")
    done(opened)
    assert folder.read(file.parent / "mine.nmf").result.names[j] == "glucose"
    assert opened.state.edits == ("Polished",)  # saving is no edit
    assert len(opened.editors[4].edits) == 1
    monkeypatch.chdir(file.parent / "mine.nmf")
    namespace = {}
    exec(compile(Path("edits.py").read_text(), "edits.py", "exec"), namespace)
    assert namespace["result"].names[j] == "glucose"


def test_a_component_that_does_not_match_gets_no_name(rng):
    W, H = rng.random((30, 3)) ** 8, rng.random((3, 20)) ** 8
    first = Factorization(W, H, 0.0, 0.0, (), Status.DONE, 0.0, names=("a", "b", "3"))
    other = Factorization(W[:, ::-1], H, 0.0, 0.0, (), Status.DONE, 0.0)
    found = carried_names(other, [(3, first)])
    assert {i: one.name for i, one in found.items()} == {1: "b"}
    same = carried_names(Factorization(W, H, 0.0, 0.0, (), Status.DONE, 0.0), [(3, first)])
    assert [same[i].cosine for i in (0, 1)] == [pytest.approx(1), pytest.approx(1)]


def test_no_name_is_given_twice_and_the_first_source_wins(rng):
    W, H = rng.random((30, 2)), rng.random((2, 20))
    plain = Factorization(W, H, 0.0, 0.0, (), Status.DONE, 0.0)
    near, far = replace(plain, names=("a", "2")), replace(plain, names=("b", "a"))
    found = carried_names(plain, [(3, near), (7, far)])
    assert {i: (one.name, one.start) for i, one in found.items()} == {0: ("a", 3)}
    assert carried_names(replace(plain, names=("own", "a")), [(3, near)]) == {}


def test_a_rank_is_shown_as_it_is_on_the_path(opened):
    for rank in opened.state.path.ranks:
        opened.go(int(rank))
        assert opened.state.result is opened.state.path[rank]


@pytest.mark.parametrize("rank", [0, 6, -3])
def test_ranks_that_were_not_fitted_are_not_shown(opened, rank):
    before = opened.state.start
    opened.go(rank)
    assert opened.state.start == before


@pytest.mark.parametrize("n_max", [0, -1, 61])
def test_a_highest_rank_out_of_range_is_refused(session, n_max):
    session.find_path(n_max)
    assert session.state.note.text == "The highest rank must be from 1 to 60."


def test_fitting_ranks_again_keeps_edits(opened):
    opened.go(4)
    opened.edit("rename", 0, "glucose")
    done(opened)
    opened.find_path(6)
    done(opened)
    opened.go(3)
    opened.go(4)
    assert opened.state.names[0] == "glucose"
