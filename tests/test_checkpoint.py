import json
import os

import numpy as np
import pytest

from nmfmerge import Status, datasets, nmf, nmf_merge
from nmfmerge.checkpoint import Checkpoint
from nmfmerge.solvers import SOLVERS

X = datasets.lcms_like(40, 60, 6).X


class Killed(Exception):
    """What a kill is to the code: it is gone, without a word."""


@pytest.fixture(autouse=True)
def _always_due(monkeypatch):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)


def cut(function, path, at, **settings):
    """Run until iteration ``at`` of all stages together, then vanish."""
    seen = []

    def callback(progress):
        seen.append(progress.iteration)
        if len(seen) == at:
            raise Killed

    with pytest.raises(Killed):
        function(X, 5, checkpoint=path, callback=callback, **settings)


def assert_same_run(result, whole):
    np.testing.assert_array_equal(result.W, whole.W)
    np.testing.assert_array_equal(result.H, whole.H)
    assert result.fitting_error == whole.fitting_error
    assert result.status is whole.status
    for stage, other in zip(result.stages, whole.stages, strict=True):
        assert (stage.name, stage.n_iter, stage.status) == (other.name, other.n_iter, other.status)
        assert stage.fitting_error == other.fitting_error
        if other.history is not None:
            np.testing.assert_array_equal(stage.history.step, other.history.step)
            assert (np.diff(stage.history.seconds) >= 0).all()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("function", [nmf, nmf_merge])
def test_a_run_cut_off_anywhere_goes_on_to_the_same_bits(function, solver, tmp_path):
    settings = {"solver": solver, "init": "random", "random_state": 3, "tol": 1e-3}
    whole = function(X, 5, **settings)
    for at in np.unique(np.geomspace(1, whole.n_iter, 8).astype(int)):
        path = tmp_path / f"{at}.npz"
        cut(function, path, at, **settings)
        assert_same_run(function(X, 5, checkpoint=path, **settings), whole)


def test_a_run_cut_off_again_and_again_ends_at_the_same_bits(tmp_path):
    settings = {"solver": "hals", "init": "random", "random_state": 3}
    whole = nmf_merge(X, 5, **settings)
    cuts = whole.n_iter // 10 - 1
    assert cuts > 3
    for _ in range(cuts):  # the iteration that a cut falls into is lost: 9 are gained
        cut(nmf_merge, tmp_path / "run", 10, **settings)
    assert_same_run(nmf_merge(X, 5, checkpoint=tmp_path / "run", **settings), whole)


def test_merges_and_singular_values_survive(tmp_path):
    whole = nmf_merge(X, 5, n_extra=2)
    cut(nmf_merge, tmp_path / "run", whole.n_iter - 1, n_extra=2)
    result = nmf_merge(X, 5, n_extra=2, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(result.merges.pairs, whole.merges.pairs)
    np.testing.assert_array_equal(result.merges.penalties, whole.merges.penalties)
    np.testing.assert_array_equal(
        result.generalized_singular_values, whole.generalized_singular_values
    )


def test_a_finished_run_is_not_run_again(tmp_path):
    whole = nmf_merge(X, 5, checkpoint=tmp_path / "run")
    called = []
    result = nmf_merge(X, 5, checkpoint=tmp_path / "run", callback=called.append)
    assert called == []
    assert_same_run(result, whole)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_run_out_of_iterations_goes_on_with_more(tmp_path):
    whole = nmf(X, 5)
    assert nmf(X, 5, max_iter=7, checkpoint=tmp_path / "run").status is Status.MAX_ITER
    assert_same_run(nmf(X, 5, checkpoint=tmp_path / "run"), whole)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_run_out_of_time_goes_on_with_more(tmp_path):
    whole = nmf_merge(X, 5, tol=1e-8)
    short = nmf_merge(X, 5, tol=1e-8, max_time=0.5 * whole.seconds, checkpoint=tmp_path / "run")
    assert short.status is Status.MAX_TIME
    result = nmf_merge(X, 5, tol=1e-8, checkpoint=tmp_path / "run")
    assert_same_run(result, whole)
    assert result.seconds > short.seconds


def test_saving_replaces_the_file_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "run"
    cut(nmf, path, 5)
    before = path.read_bytes()

    def fail(*_):
        raise Killed

    with monkeypatch.context() as context:
        context.setattr(os, "replace", fail)
        with pytest.raises(Killed):
            nmf(X, 5, checkpoint=path)
    assert path.read_bytes() == before
    assert_same_run(nmf(X, 5, checkpoint=path), nmf(X, 5))


def test_saving_takes_a_bounded_share_of_the_time(tmp_path, monkeypatch):
    monkeypatch.undo()
    checkpoint = Checkpoint(tmp_path / "run", {})
    assert not checkpoint.due()
    checkpoint._last -= 2
    assert checkpoint.due()
    checkpoint._cost = 1.0
    assert not checkpoint.due()
    checkpoint._last -= 50
    assert checkpoint.due()


@pytest.mark.parametrize(
    ("changed", "named"),
    [({"n_components": 4}, "n_components: 5, now 4"), ({"tol": 1e-3}, "tol"),
     ({"X": 2 * X}, "norm2"), ({"solver": "gcd"}, "solver"), ({"random_state": 1}, "random_state")],
)  # fmt: skip
def test_the_checkpoint_of_another_run_is_refused(changed, named, tmp_path):
    cut(nmf, tmp_path / "run", 5)
    settings = {"X": X, "n_components": 5, "checkpoint": tmp_path / "run", **changed}
    with pytest.raises(ValueError, match=f"of another run .*{named}"):
        nmf(**settings)


def test_rounding_of_another_number_of_threads_is_no_other_run(tmp_path):
    Checkpoint(tmp_path / "run", {"norm2": 600254.6622895339})._refuse_another(
        1, {"norm2": 600254.6622895338}
    )
    with pytest.raises(ValueError, match="norm2"):
        Checkpoint(tmp_path / "run", {"norm2": 1.0})._refuse_another(1, {"norm2": 1.001})


def test_seeds_and_given_factors_tell_runs_apart(tmp_path):
    cut(nmf, tmp_path / "seed", 5, init="random", random_state=np.int64(1))
    with pytest.raises(ValueError, match="random_state: 1, now 2"):
        nmf(X, 5, init="random", random_state=np.int64(2), checkpoint=tmp_path / "seed")
    W, H = np.ones((40, 5)), np.ones((5, 60))
    cut(nmf, tmp_path / "given", 1, init=(W, H), tol=0)
    nmf(X, 5, init=(W, H), checkpoint=tmp_path / "given2", tol=1e-1)
    with pytest.raises(ValueError, match="init: 'given factors"):
        nmf(X, 5, init=(2 * W, H), checkpoint=tmp_path / "given2", tol=1e-1)
    with pytest.raises(ValueError, match="must be a number or None"):
        nmf(X, 5, random_state=np.random.default_rng(0), checkpoint=tmp_path / "generator")


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_checkpoint_is_refused(content, tmp_path):
    (tmp_path / "run").write_bytes(content)
    with pytest.raises(ValueError, match="is no checkpoint of a run"):
        nmf(X, 5, checkpoint=tmp_path / "run")


def test_an_archive_of_something_else_is_refused(tmp_path):
    np.savez(tmp_path / "run.npz", meta=np.array(json.dumps({"a": 1})))
    with pytest.raises(ValueError, match="is no checkpoint of a run"):
        nmf(X, 5, checkpoint=tmp_path / "run.npz")


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [(5, TypeError, "expected a path"), (".", ValueError, "is a folder"),
     ("no/such/folder/run", ValueError, "there is no folder")],
)  # fmt: skip
def test_a_checkpoint_that_cannot_be_written_is_refused_at_once(value, error, message):
    with pytest.raises(error, match=message):
        nmf(X, 5, checkpoint=value)
