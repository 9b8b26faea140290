"""`n_jobs`: no more threads work on a fit than it may have, however work is nested; bits stay."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, get_ident

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from nmfmerge import NMFMerge, cli, consensus, datasets, nmf, nmf_merge, rank_path
from nmfmerge.backends import teams, threads
from nmfmerge.backends.numba import at_most, available_threads, process_threads, shares
from nmfmerge.backends.teams import Team, in_team, present_team


def settles(said, seconds=10):
    """True once it is so: helpers that were not needed come back a little later."""
    end = time.monotonic() + seconds
    while not said() and time.monotonic() < end:
        time.sleep(0.001)
    return said()


@pytest.fixture
def many_threads(monkeypatch):
    """Eight threads, whatever the machine has; even the smallest work is shared."""
    for module in (teams, threads):
        monkeypatch.setattr(module, "cores", lambda: 8)
    pool = threads._Pool()
    monkeypatch.setattr(threads, "_pool", lambda: pool)
    monkeypatch.setattr(shares, "_FLOPS_PER_THREAD", 1.0)
    monkeypatch.setattr(shares, "LEAST_FLOPS", 0.0)
    with threadpool_limits(8, user_api="blas"):
        yield pool
    assert settles(lambda: pool.idle == 7)


class Counter:
    """How many threads work at once, at most."""

    def __init__(self):
        self.depth, self.most, self.lock = {}, 0, Lock()

    def __enter__(self):
        with self.lock:
            self.depth[get_ident()] = self.depth.get(get_ident(), 0) + 1
            self.most = max(self.most, sum(depth > 0 for depth in self.depth.values()))

    def __exit__(self, *_):
        with self.lock:
            self.depth[get_ident()] -= 1


@pytest.fixture
def working(monkeypatch):
    """The number of threads that work on shared work."""
    counter, work = Counter(), threads._Job._work

    def counted(self):
        with counter:
            work(self)

    monkeypatch.setattr(threads._Job, "_work", counted)
    return counter


X = datasets.lcms_like(60, 90, 4).X + 0.01


@pytest.mark.parametrize(
    "kind", [np.asarray, np.float32, sp.csr_array, lambda X: da.from_array(X, chunks=(20, 90))]
)
@pytest.mark.parametrize("fit", [nmf, nmf_merge])
def test_n_jobs_does_not_change_a_bit(fit, kind, many_threads):
    one, *others = (fit(kind(X), 4, n_init=3, tol=1e-2, n_jobs=n) for n in (1, 2, 4, None))
    for other in others:
        np.testing.assert_array_equal(np.asarray(one.W), np.asarray(other.W))
        np.testing.assert_array_equal(one.H, other.H)


@pytest.mark.usefixtures("many_threads")
def test_n_jobs_does_not_change_a_bit_of_other_fits():
    counts = np.round(30 * X / X.max())
    options = {"tol": 1e-2, "beta_loss": "kullback-leibler"}
    holed = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    for fit in (
        lambda n: nmf_merge(holed, 3, n_jobs=n, tol=1e-2).H,
        lambda n: nmf_merge(counts, 3, n_jobs=n, **options).H,
        lambda n: NMFMerge(3, n_jobs=n, tol=1e-2).fit_transform(X),
        lambda n: rank_path(X, 4, tol=1e-2, n_jobs=n)[3].H,
        lambda n: consensus(X, 3, n_fits=5, tol=1e-2, n_jobs=n)[3].factorization.H,
    ):
        one, *others = map(fit, (1, 2, 4))
        for other in others:
            np.testing.assert_array_equal(one, other)


def test_a_run_continues_with_another_n_jobs_to_the_same_bits(tmp_path, many_threads):
    options = {"n_init": 3, "init": "random", "tol": 1e-3}
    whole = nmf(X, 4, **options)
    with pytest.warns(ConvergenceWarning):
        nmf(X, 4, max_iter=7, checkpoint=tmp_path / "state", n_jobs=1, **options)
    again = nmf(X, 4, checkpoint=tmp_path / "state", n_jobs=3, **options)
    assert whole.n_iter > 7
    np.testing.assert_array_equal(again.W, whole.W)
    np.testing.assert_array_equal(again.H, whole.H)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_no_more_threads_work_on_a_fit_than_n_jobs(n_jobs, many_threads, working):
    nmf_merge(X, 4, n_init=4, tol=1e-2, n_jobs=n_jobs)
    assert working.most <= n_jobs
    NMFMerge(4, n_jobs=n_jobs, tol=1e-2).fit(X).transform(X)
    rank_path(X, 3, tol=1e-2, n_jobs=n_jobs)
    consensus(X, 3, n_fits=5, tol=1e-2, n_jobs=n_jobs)
    assert working.most <= n_jobs


def nested(counter, depth=3):
    """Shares work out within shared work."""

    def part(i):
        with counter:
            time.sleep(0.002)
            if depth > 1:
                nested(counter, depth - 1)

    threads.share(part, 3)


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_nested_work_has_the_same_team(n_jobs, many_threads):
    counter = Counter()
    with at_most(n_jobs):
        nested(counter)
        assert settles(lambda: present_team().idle == n_jobs - 1)
    assert counter.most == n_jobs


def test_without_n_jobs_nested_work_has_what_the_process_has(many_threads):
    counter = Counter()
    with threadpool_limits(3, user_api="blas"), at_most(None):
        nested(counter)
    assert counter.most == 3


def test_a_fit_within_a_fit_has_no_more_than_the_outer_one(many_threads):
    counter = Counter()

    def inner(i):
        with at_most(4):
            assert available_threads() == 2
            nested(counter)

    with at_most(2):
        threads.share(inner, 3)
    assert counter.most == 2


def test_fits_in_several_threads_have_their_own(many_threads):
    counters = [Counter(), Counter()]

    def fit(counter):
        with at_most(2):
            nested(counter)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fit, counters))
    assert all(counter.most <= 2 for counter in counters)


@pytest.mark.parametrize(("n_jobs", "n"), [(None, 8), (-1, 8), (-2, 7), (-9, 1), (3, 3), (20, 8)])
def test_numbers_of_threads_mean_what_they_mean_in_scikit_learn(n_jobs, n, many_threads):
    with at_most(n_jobs):
        assert available_threads() == n
    assert present_team() is None


def test_an_error_gives_the_helpers_back(many_threads):
    def failing(i):
        raise ZeroDivisionError

    team = Team(4)
    with pytest.raises(ZeroDivisionError), in_team(team):
        threads.share(failing, 4)
    assert settles(lambda: team.idle == 3)


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
@pytest.mark.parametrize("fit", [nmf, nmf_merge, rank_path])
def test_what_is_no_number_of_threads_is_refused(fit, n_jobs):
    with pytest.raises((ValueError, TypeError), match=r"n_jobs=.* expected a whole number"):
        fit(X, 3, n_jobs=n_jobs)
    with pytest.raises((ValueError, TypeError), match=r"n_jobs=.* expected a whole number"):
        NMFMerge(3, n_jobs=n_jobs).fit(X)


def test_the_option_holds_the_whole_process(tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "x.npy", X)
    seen = []
    monkeypatch.setattr("nmfmerge.cli.merge.run", lambda given: seen.append(process_threads()) or 0)
    for n in ("1", "-1", "-100"):
        assert cli.main(["merge", str(tmp_path), "--threads", n]) == 0
    assert seen[0] == seen[2] == 1
    assert seen[1] >= seen[0]
    assert cli.main(["merge", str(tmp_path), "--threads", "0"]) == 1
    assert "--threads 0 is out of range; expected a whole number of at least 1" in (
        capsys.readouterr().err
    )
