"""Looking at and adjusting data with missing values and weights."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import datasets, metrics
from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.cli import main
from nmfmerge.explore import reduce
from nmfmerge.explore.explorer import open_matrix, open_path
from nmfmerge.explore.fragments import heading, ranks
from nmfmerge.explore.reduce import Overview
from nmfmerge.inputs.check import check_X
from nmfmerge.results.factorization import Factorization
from nmfmerge.solvers.history import Status
from nmfmerge.storage import folder
from tests.explore.conftest import done

rng = np.random.default_rng(0)
X = datasets.lcms_like(30, 40, 3).X
HIDDEN = rng.random(X.shape) < 0.1
HOLES = np.where(HIDDEN, np.nan, X)
WEIGHTS = np.where(HIDDEN, 0, 0.5 + rng.random(X.shape))
RATED = np.where(rng.random(X.shape) < 0.4, X + 0.1, 0)
FORMS = {
    "holes": (HOLES, {}),
    "weights": (np.where(HIDDEN, 1e6, X), {"weights": WEIGHTS}),
    "ratings": (sp.csr_array(RATED), {"missing": "zeros"}),
}


@pytest.fixture(params=FORMS)
def given(request):
    return FORMS[request.param]


def stored(given, path):
    """Options to open the data as files."""
    X, entries = given
    if sp.issparse(X):
        sp.save_npz(path / "run.npz", X.tocsr())
        return path / "run.npz", entries
    np.save(path / "run.npy", X)
    if "weights" not in entries:
        return path / "run.npy", entries
    np.save(path / "weights.npy", entries["weights"])
    return path / "run.npy", {"weights": path / "weights.npy"}


def error(given, result):
    return metrics.fitting_error(given[0], result.W, result.H, **given[1])


def test_what_is_opened_edited_and_saved_is_of_the_observed_entries(given, tmp_path):
    file, entries = stored(given, tmp_path)
    session = open_path(file, **entries)
    session.find_path(4)
    done(session)
    session.go(4)
    done(session)
    shown = session.state.extras
    session.choose_cheapest_pair()
    i, j = session.state.pair
    before = session.state.result.fitting_error
    assert before == pytest.approx(error(given, session.state.result), rel=1e-9)
    session.merge_pair()
    done(session)
    after = session.state.result.fitting_error
    assert after == pytest.approx(error(given, session.state.result), rel=1e-9)
    assert after - before == pytest.approx(shown.pairs[i, j], rel=1e-6)
    for edit in (("split", 0), ("add", 1), ("polish",), ("undo",)):
        session.edit(*edit)
        done(session)
    result = session.state.result
    assert "of the observed entries" in heading(session, session.state)
    session.save("mine.nmf")
    assert "Saved as mine.nmf" in done(session).text
    session.close()

    again = open_path(tmp_path / "mine.nmf")
    np.testing.assert_array_equal(again.state.result.W, result.W)
    assert again.state.result.fitting_error == pytest.approx(error(given, result), rel=1e-9)
    again.edit("polish")
    done(again)
    assert again.state.result.fitting_error == pytest.approx(
        error(given, again.state.result), rel=1e-9
    )
    again.close()
    with pytest.raises(ArgumentError, match=r"missing=.zeros. is for data, and .* is a fit"):
        open_path(tmp_path / "mine.nmf", missing="zeros")

    reopened = open_path(file, **entries)  # with the edits that were kept
    np.testing.assert_array_equal(reopened.editors[4].result().W, result.W)
    reopened.close()


def test_the_saved_script_takes_the_weights(given, tmp_path, monkeypatch):
    file, entries = stored(given, tmp_path)
    session = open_path(file, **entries)
    session.find_path(3)
    done(session)
    session.edit("merge", 0, 1)
    done(session)
    session.save("mine.nmf")
    done(session)
    monkeypatch.chdir(tmp_path / "mine.nmf")
    done_again = {}
    exec(compile((tmp_path / "mine.nmf/edits.py").read_text(), "edits.py", "exec"), done_again)
    assert done_again["result"].fitting_error == session.state.result.fitting_error
    session.close()


def test_a_fit_of_the_command_line_is_opened_with_its_weights(tmp_path):
    file, entries = stored(FORMS["weights"], tmp_path)
    words = ["--weights", str(entries["weights"]), "-o", str(tmp_path / "out"), "--no-compare"]
    assert main(["fit", str(file), "-r", "3", "-k", "0", *words]) == 0
    session = open_path(tmp_path / "out")
    result = folder.read(tmp_path / "out").result
    assert session.state.result.fitting_error == result.fitting_error
    session.edit("polish")
    done(session)
    assert session.state.result.fitting_error == pytest.approx(
        error(FORMS["weights"], session.state.result), rel=1e-9
    )
    session.close()


def test_a_matrix_in_memory_is_taken_with_its_weights(given):
    session = open_matrix(given[0], **given[1])
    session.find_path(3)
    done(session)
    assert session.state.result.fitting_error == pytest.approx(
        error(given, session.state.result), rel=1e-9
    )
    session.close()


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("form", ["holes", "weights", "ratings"])
def test_pictures_are_means_of_what_is_observed(form, kept, monkeypatch):
    if kept:  # as for large data: from sums that are kept
        monkeypatch.setattr(reduce, "_EXACT", 0)
        monkeypatch.setattr(reduce, "_COARSE", 20)
    X, entries = FORMS[form]
    data = check_X(X, weights=entries.get("weights"), absent=entries.get("missing", "nan"))
    found, rows, columns = Overview.of(data, X).window((0, 30), (3, 40), 13)
    M = WEIGHTS if form == "weights" else (RATED > 0) * 1.0 if form == "ratings" else 1.0 * ~HIDDEN
    known = np.where(M > 0, RATED if form == "ratings" else np.nan_to_num(HOLES), 0)
    for i, (a, b) in enumerate(pairwise(rows)):
        for j, (c, d) in enumerate(pairwise(columns)):
            weights, total = M[a:b, c:d].sum(), (M * known)[a:b, c:d].sum()
            expected = total / weights if weights else np.nan
            assert found[i, j] == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("form", ["holes", "weights", "ratings", "sparse weights"])
def test_residuals_of_blocks_are_means_of_those_observed(form):
    X, entries = FORMS["weights" if form == "sparse weights" else form]
    M = {"holes": 1.0 * ~HIDDEN, "ratings": 1.0 * (RATED > 0)}.get(form, WEIGHTS)
    weights = sp.csr_array(M) if form == "sparse weights" else entries.get("weights")
    data = check_X(X, weights=weights, absent=entries.get("missing", "nan"))
    overview, W, H = Overview.of(data, X), rng.random((30, 3)), rng.random((3, 40))
    found, *edges = overview.window((0, 30), (3, 40), 13)
    rest = found - overview.fit(W, H, *edges)
    known = np.where(M > 0, RATED if form == "ratings" else np.nan_to_num(HOLES), 0)
    residual = M * (known - W @ H)
    for i, (a, b) in enumerate(pairwise(edges[0])):
        for j, (c, d) in enumerate(pairwise(edges[1])):
            weight = M[a:b, c:d].sum()
            expected = residual[a:b, c:d].sum() / weight if weight else np.nan
            assert rest[i, j] == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)


def test_an_exact_fit_of_large_data_leaves_no_residual(page_of):
    W, H = rng.random((900, 2)), rng.random((2, 700))
    session = open_matrix(np.where(rng.random((900, 700)) < 0.5, np.nan, W @ H))
    page = page_of(session)
    page.maps.show(Factorization(W, H, 0.0, 0.0, (), Status.DONE, 0.0))
    assert float(page.maps.plots[2].title.text.split("±")[1]) < 1e-12
    session.close()


def test_what_is_missing_has_a_colour_of_its_own(page_of):
    session = open_matrix(HOLES)
    session.find_path(3)
    done(session)
    page = page_of(session)
    data, fit, rest = (source.data["image"][0] for source in page.maps.sources)
    np.testing.assert_array_equal(np.isnan(data), HIDDEN)
    np.testing.assert_array_equal(np.isnan(rest), HIDDEN)
    assert fit.dtype == np.uint8
    assert np.nanmax(data) == 255
    assert "nan" not in page.maps.plots[0].title.text
    assert "Nothing was observed where it is grey." in page.maps.note
    session.close()


def test_held_out_errors_are_drawn_where_they_were_asked_for(page_of):
    session = open_matrix(X + 0.05 * rng.random(X.shape))
    page = page_of(session)
    session.find_path(4)
    done(session)
    assert "held-out entries, least" not in ranks(session, session.state)
    page.act('{"action": "path", "args": [], "fields": {"n_max": "4", "holdout": "0.1"}}')
    done(session)
    path = session.state.path
    page.draw()
    np.testing.assert_array_equal(page.curves.source.data["held_out"], path.held_out)
    said = re.search("least at rank ([0-9]+)", ranks(session, session.state))
    assert int(said[1]) == path.ranks[np.argmin(path.held_out)]
    session.close()


def test_the_saved_fit_says_how_the_data_were_opened(given, tmp_path):
    file, entries = stored(given, tmp_path)
    session = open_path(file, **entries)
    session.find_path(2)
    done(session)
    session.save("mine.nmf")
    done(session)
    session.close()
    command = folder.read(tmp_path / "mine.nmf").about.command
    for name, value in entries.items():
        assert f"--{name} {value}" in command


def test_bars_of_held_out_errors_reach_down_where_their_lower_end_is_negative(page_of):
    session = open_matrix(HOLES)
    page = page_of(session)
    session.find_path(3, 0.1)
    done(session)
    path = session.state.path
    wild = replace(path, held_out_error=np.array([0.1, 1.5, 0.1]) * path.held_out)
    page.curves.show(replace(session.state, path=wild))
    drawn = page.curves.source.data
    assert 0 < drawn["low"][1] < drawn["held_out"][1] < drawn["high"][1]
    np.testing.assert_allclose(drawn["low"][[0, 2]], 0.9 * path.held_out[[0, 2]])
    session.close()


def test_small_weights_are_no_missing_values():
    weights = np.where(np.arange(40) < 20, 1.0, 1e-12) * np.ones((30, 1))
    overview = Overview.of(check_X(X, weights=weights), X)
    found = overview.window((0, 30), (0, 40), 10)[0]
    assert np.isfinite(found).all()
