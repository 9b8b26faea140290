import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import Interrupted, Status, datasets, nmf, nmf_merge
from nmfmerge.matrices import DenseData
from nmfmerge.solvers import SOLVERS
from nmfmerge.storage import files
from nmfmerge.storage.checkpoint import Checkpoint, CheckpointError, OtherRun, _checksum
from nmfmerge.storage.files import InUse, Lock

X = datasets.lcms_like(40, 60, 6).X


class Killed(Exception):
    """What a kill is to the code: it is gone, without a word."""


@pytest.fixture(autouse=True)
def _always_due(monkeypatch):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    monkeypatch.setattr(os, "fsync", lambda number: None)  # slow, and no test cuts the power


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
    settings = {"solver": solver, "init": "random", "n_init": 1, "random_state": 3, "tol": 1e-3}
    whole = function(X, 5, **settings)
    for at in np.unique(np.geomspace(1, whole.n_iter, 8).astype(int)):
        path = tmp_path / f"{at}.npz"
        cut(function, path, at, **settings)
        assert_same_run(function(X, 5, checkpoint=path, **settings), whole)


def test_a_run_cut_off_again_and_again_ends_at_the_same_bits(tmp_path):
    settings = {"solver": "hals", "init": "random", "n_init": 1, "random_state": 3}
    whole = nmf_merge(X, 5, **settings)
    cuts = whole.n_iter // 10 - 1
    assert cuts > 3
    for _ in range(cuts):  # the iteration that a cut falls into is lost: 9 are gained
        cut(nmf_merge, tmp_path / "run", 10, **settings)
    assert_same_run(nmf_merge(X, 5, checkpoint=tmp_path / "run", **settings), whole)


def test_merges_and_singular_values_survive(tmp_path):
    whole = nmf_merge(X, 5, n_extra=2)
    iterations = sum(start.n_iter for start in whole.starts)
    cut(nmf_merge, tmp_path / "run", iterations - 1, n_extra=2)
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
    options = {"tol": 1e-7, "n_init": 2}
    whole = nmf_merge(X, 5, **options)
    short = nmf_merge(X, 5, **options, max_time=0.5 * whole.seconds, checkpoint=tmp_path / "run")
    assert short.status is Status.MAX_TIME
    result = nmf_merge(X, 5, **options, checkpoint=tmp_path / "run")
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
     ({"X": 2 * X}, "other data"), ({"solver": "gcd"}, "solver"),
     ({"random_state": 1}, "random_state"), ({"X": X.astype("f4")}, "dtype")],
)  # fmt: skip
def test_the_checkpoint_of_another_run_is_refused(changed, named, tmp_path):
    cut(nmf, tmp_path / "run", 5)
    settings = {"X": X, "n_components": 5, "checkpoint": tmp_path / "run", **changed}
    with pytest.raises(ValueError, match=f"of another run .*{named}"):
        nmf(**settings)


OTHER = {
    "upside down": lambda X: X[::-1],
    "columns shuffled": lambda X: X[:, np.random.default_rng(0).permutation(X.shape[1])],
    "one value moved": lambda X: np.where(np.eye(*X.shape) > 0, np.roll(X, 1, axis=0), X),
    "one bit": lambda X: np.where(np.arange(X.size).reshape(X.shape) == 7, np.nextafter(X, 9), X),
}
KINDS = {"dense": np.ascontiguousarray, "csr": sp.csr_array, "csc": sp.csc_array}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", OTHER)
def test_the_checkpoint_of_other_data_of_the_same_shape_is_refused(other, kind, tmp_path):
    thin = np.maximum(X - np.median(X), 0)
    nmf(KINDS[kind](thin), 5, checkpoint=tmp_path / "run", tol=0.1)
    with pytest.raises(OtherRun, match="of another run \\(other data"):
        nmf(KINDS[kind](OTHER[other](thin)), 5, checkpoint=tmp_path / "run", tol=0.1)


def test_equal_data_go_on_however_they_lie_in_memory(tmp_path):
    whole = nmf(X, 5, checkpoint=tmp_path / "run")
    for same in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X.astype(">f8")):
        result = nmf(same, 5, checkpoint=tmp_path / "run", callback=pytest.fail)
        np.testing.assert_array_equal(result.W, whole.W)


def test_the_data_are_read_for_a_checkpoint_only(monkeypatch, tmp_path):
    calls = []
    digest = DenseData.digest
    monkeypatch.setattr(DenseData, "digest", lambda self: calls.append(1) or digest(self))
    nmf_merge(X, 3)
    assert calls == []
    nmf_merge(X, 3, checkpoint=tmp_path / "run")
    assert calls == [1]


def test_seeds_and_given_factors_tell_runs_apart(tmp_path):
    cut(nmf, tmp_path / "seed", 5, init="random", random_state=np.int64(1))
    with pytest.raises(ValueError, match="random_state: 1, now 2"):
        nmf(X, 5, init="random", random_state=np.int64(2), checkpoint=tmp_path / "seed")
    W, H = np.ones((40, 5)), np.ones((5, 60))
    cut(nmf, tmp_path / "given", 1, init=(W, H), tol=0)
    nmf(X, 5, init=(W, H), checkpoint=tmp_path / "given2", tol=1e-1)
    with pytest.raises(ValueError, match="init: 'given factors"):
        nmf(X, 5, init=(2 * W, H), checkpoint=tmp_path / "given2", tol=1e-1)
    with pytest.raises(ValueError, match="expected a number or None with checkpoint"):
        nmf(X, 5, random_state=np.random.default_rng(0), checkpoint=tmp_path / "generator")


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_checkpoint_is_refused(content, tmp_path):
    (tmp_path / "run").write_bytes(content)
    with pytest.raises(ValueError, match="is damaged, or no checkpoint"):
        nmf(X, 5, checkpoint=tmp_path / "run")
    assert (tmp_path / "run").read_bytes() == content


def test_an_archive_of_something_else_is_refused(tmp_path):
    np.savez(tmp_path / "run.npz", record=np.array(json.dumps({"a": 1})))
    with pytest.raises(ValueError, match=r"no checkpoint .*'checksum.* is missing"):
        nmf(X, 5, checkpoint=tmp_path / "run.npz")


def rewrite(path, change):
    """Change the entries of a checkpoint, and make its checksum right again."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files if name != "checksum"}
    record = json.loads(str(arrays.pop("record")))
    change(record, arrays)
    arrays["record"] = np.array(json.dumps(record))
    arrays["checksum"] = np.array(_checksum(arrays))
    with open(path, "wb") as file:
        np.savez(file, **arrays)


def put(name, change):
    return lambda record, arrays: arrays.update({name: change(arrays[name])})


def put_in_stage(key, value):
    return lambda record, arrays: [
        course["starts"][0]["stages"][0].update({key: value}) for course in record["courses"]
    ]


def put_leaves(n):
    return lambda record, arrays: record["courses"][1]["starts"][0].update(n_leaves=n)


FAULTS = {
    "Wt has NaN": put("1: state Wt", lambda F: F * np.nan),
    "Wt has negative": put("1: state Wt", lambda F: -F),
    "H has shape": put("1: state H", lambda F: F[:, :, :-1]),
    "H has shape .*expected .1, 5": put("1: state H", lambda F: F[:0]),
    "Wt has the type float32": put("1: state Wt", lambda F: F.astype(np.float32)),
    "list of entries": lambda record, arrays: arrays.pop("1: 0 generalized_singular_values"),
    "singular values": put("1: 0 generalized_singular_values", lambda values: -values[:, None]),
    "a history has shape": put("1: 0 history 1", lambda history: history[:2]),
    "one record per iteration": put("1: 0 history 1", lambda history: history[:, :-1]),
    "times out of order": put("1: 0 history 1", lambda history: -1 - history),
    "'x' is not a valid Status": put_in_stage("status", "x"),
    "did not end": put_in_stage("status", "interrupted"),
    "n_iter is -1": put_in_stage("n_iter", -1),
    "its stages are": put_in_stage("name", "final"),
    "it does not have the 2 starts": lambda record, arrays: record["courses"].append(None),
    "but 1 were requested": lambda record, arrays: record["courses"][1]["starts"].clear(),
    "the values to fall back to": put("1: fallback value", lambda values: values[:0]),
    "'elapsed' is missing": lambda record, arrays: record.pop("elapsed"),
    "merged pairs have shape": put("1: 0 merge pairs", lambda pairs: pairs.ravel()),
    "cannot be merged": put_leaves(1),
    "record of the merges": put_leaves(None),
    "its merges leave 999999998 components, not 5": put_leaves(10**9),
    "too large": lambda record, arrays: record.update(elapsed=10**400),
    "fall back to is missing": lambda record, arrays: (
        arrays.update({"1: state fallback H": arrays["1: state H"]}),
        record["arrays"].append("1: state fallback H"), record["arrays"].sort(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", FAULTS)
def test_what_no_run_can_have_saved_is_refused(message, tmp_path):
    nmf_merge(X, 5, n_extra=2, n_init=2, tol=0.1, checkpoint=tmp_path / "run")
    rewrite(tmp_path / "run", FAULTS[message])
    with pytest.raises(ValueError, match=f"checkpoint .*no run can have saved .*{message}"):
        nmf_merge(X, 5, n_extra=2, n_init=2, tol=0.1, checkpoint=tmp_path / "run")


def test_starts_of_one_batch_at_different_stages_are_refused(tmp_path):
    streamed = pytest.importorskip("dask.array").from_array(X, chunks=(10, -1))
    nmf_merge(streamed, 5, n_extra=2, n_init=3, tol=0.1, checkpoint=tmp_path / "run")
    rewrite(tmp_path / "run", lambda record, _: record["courses"][0]["starts"][1]["stages"].pop())
    with pytest.raises(ValueError, match="its starts are at different stages"):
        nmf_merge(streamed, 5, n_extra=2, n_init=3, tol=0.1, checkpoint=tmp_path / "run")


@pytest.mark.parametrize("name", ["swept_W", "swept_H", "accepted", "weight", "rest"])
@pytest.mark.parametrize("n_init", [1, 3])
def test_a_solver_state_that_does_not_fit_is_refused(name, n_init, tmp_path):
    cut(nmf, tmp_path / "run", 50, n_init=n_init, tol=1e-6)

    def shrink(A):
        return A[..., :-1] if A.ndim else A.astype(np.float32)

    rewrite(tmp_path / "run", put(f"0: 0 solver {name}", shrink))
    with pytest.raises(ValueError, match="state of the solver in the checkpoint does not fit"):
        nmf(X, 5, n_init=n_init, tol=1e-6, checkpoint=tmp_path / "run")


def limit_files(size):
    """No file may become longer than ``size`` bytes, as if the disk were full."""
    resource = pytest.importorskip("resource")
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.mark.parametrize("size", [0, 100, 1000, 4000])
def test_a_full_disk_does_not_end_the_run(size, tmp_path):
    whole = nmf_merge(X, 5)
    cut(nmf_merge, tmp_path / "run", 5)
    before = (tmp_path / "run").read_bytes()
    assert len(before) > 4000
    try:
        limit_files(size)
        with pytest.warns(RuntimeWarning, match="could not be saved") as caught:
            result = nmf_merge(X, 5, checkpoint=tmp_path / "run")
    finally:
        limit_files(-1)
    assert len(caught) == 1
    assert_same_run(result, whole)
    assert (tmp_path / "run").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_saving_is_tried_again_when_the_disk_has_room(tmp_path, monkeypatch):
    calls = []

    def full_at_first(number):
        calls.append(number)
        if len(calls) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_at_first)
    with pytest.warns(RuntimeWarning, match="No space left on device") as caught:
        whole = nmf_merge(X, 5, checkpoint=tmp_path / "run")
    assert len(caught) == 1
    called = []
    assert_same_run(nmf_merge(X, 5, checkpoint=tmp_path / "run", callback=called.append), whole)
    assert called == []


def test_two_runs_do_not_share_a_checkpoint(tmp_path):
    def callback(progress):
        with pytest.raises(InUse, match=f"in use by another run .process {os.getpid()}"):
            nmf(X, 5, checkpoint=tmp_path / "run")
        return True

    nmf(X, 5, checkpoint=tmp_path / "run", callback=callback)
    nmf(X, 5, checkpoint=tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


HOLD = """
import pathlib, sys, time
from nmfmerge.storage.files import Lock
lock = Lock(pathlib.Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_the_lock_of_a_killed_process_is_no_obstacle(tmp_path):
    path = tmp_path / "run"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(InUse, match=f"process {holder.pid}"):
            nmf(X, 5, checkpoint=path)
        holder.kill()
    assert list(tmp_path.iterdir()) == [Lock(path).path]
    nmf(X, 5, checkpoint=path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_without_locks_is_used_without(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("nmfmerge.storage.files._lock", unsupported)
    nmf(X, 5, checkpoint=tmp_path / "run", tol=0.1)
    assert (tmp_path / "run").exists()


def test_a_lock_deleted_by_its_owner_is_taken_anew(tmp_path, monkeypatch):
    path = tmp_path / "run"
    first, second = Lock(path), Lock(path)
    first.acquire()
    real = files._lock

    def slow(file):
        monkeypatch.setattr("nmfmerge.storage.files._lock", real)
        first.release()  # between the opening of the lock file and its locking
        real(file)

    monkeypatch.setattr("nmfmerge.storage.files._lock", slow)
    second.acquire()
    with pytest.raises(InUse):
        first.acquire()
    second.release()


def test_a_linked_checkpoint_stays_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk" / "real")
    nmf(X, 5, checkpoint=tmp_path / "run", tol=0.1)
    assert (tmp_path / "run").is_symlink()
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["real"]


def test_a_place_where_nothing_can_be_written_is_found_before_the_fit(tmp_path):
    called = []
    with pytest.raises(ValueError, match=r"cannot be written .*File name too long"):
        nmf(X, 5, checkpoint=tmp_path / ("x" * 250), callback=called.append)
    assert called == []


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [(5, TypeError, "expected a path"), (".", ValueError, "is a folder"),
     ("no/such/folder/run", ValueError, "folder that does not exist")],
)  # fmt: skip
def test_a_checkpoint_that_cannot_be_written_is_refused_at_once(value, error, message):
    with pytest.raises(error, match=message):
        nmf(X, 5, checkpoint=value)


@pytest.mark.parametrize("chunks", [(10, -1), (-1, 10)])
@pytest.mark.parametrize("stop", [3, 40, 100])
def test_a_run_of_a_dask_array_is_continued_from_the_short_factor(tmp_path, chunks, stop):
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(0)
    X = da.from_array(rng.random((60, 5)) @ rng.random((5, 50)) + 0.1, chunks=chunks)
    alone = nmf_merge(X, 3, n_init=2, tol=1e-5)
    n_calls = 0

    def stop_soon(progress):
        nonlocal n_calls
        n_calls += 1
        if n_calls == stop:
            raise KeyboardInterrupt

    file = tmp_path / "run.npz"
    with pytest.raises(Interrupted):
        nmf_merge(X, 3, n_init=2, tol=1e-5, checkpoint=file, callback=stop_soon)
    with np.load(file) as saved:
        assert 0 in saved["0: state Wt" if chunks[0] == 10 else "0: state H"].shape
    found = nmf_merge(X, 3, n_init=2, tol=1e-5, checkpoint=file)
    assert found.fitting_error == pytest.approx(alone.fitting_error, rel=1e-4)
    with pytest.raises(CheckpointError, match="other data"):
        nmf_merge(X + 1, 3, n_init=2, tol=1e-5, checkpoint=file)
    with pytest.raises(CheckpointError, match="of another run"):
        nmf_merge(X.compute(), 3, n_init=2, tol=1e-5, checkpoint=file)
