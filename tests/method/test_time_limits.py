"""A run keeps to max_time and ends at Ctrl-C wherever it is, not only between iterations.

The clock of these tests is moved on by the products with X, so that there is no waiting.
"""

from time import perf_counter

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from nmfmerge import Interrupted, Status, metrics, nmf, nmf_merge, recover_components, report
from nmfmerge.matrices.sparse import SparseData
from nmfmerge.method.recover import recover

SECONDS = 1000.0  # that a product takes
SETTLE = 3  # products that a run may do after its time: the error of what it returns, a merge


class SlowData:
    """Counts products with X, lets the clock run on at each, and interrupts one."""

    def __init__(self):
        self.products = 0
        self.at_recovery = []  # products that had been done when it began
        self.interrupt_at = None

    def product(self):
        self.products += 1
        if self.products == self.interrupt_at:
            raise KeyboardInterrupt

    def clock(self):
        return perf_counter() + SECONDS * self.products


@pytest.fixture
def slow(monkeypatch, single_operations):
    """One start after another: Ctrl-C comes to the main thread."""
    with threadpool_limits(1):
        yield _slow(monkeypatch)


def _slow(monkeypatch):
    slow = SlowData()

    def slowed(method):
        def product(self, *arguments, **options):
            slow.product()
            return method(self, *arguments, **options)

        return product

    for name in ("HXt", "WtX"):
        monkeypatch.setattr(SparseData, name, slowed(getattr(SparseData, name)))
    for module in ("solvers.loop", "solvers.limits", "method.course"):
        monkeypatch.setattr(f"nmfmerge.{module}.perf_counter", slow.clock)

    def noted(*arguments):
        slow.at_recovery.append(slow.products)
        return recover(*arguments)

    monkeypatch.setattr("nmfmerge.method.course.recover", noted)
    return slow


@pytest.fixture
def X(rng):
    return sp.csr_array(rng.random((300, 200)) * (rng.random((300, 200)) < 0.2))


def check_valid(result, X, r):
    assert result.W.shape == (X.shape[0], r)
    assert result.H.shape == (r, X.shape[1])
    for F in (result.W, result.H):
        assert np.isfinite(F).all()
        assert (F >= 0).all()
    found = metrics.fitting_error(X, result.W, result.H)
    assert found == pytest.approx(result.fitting_error)
    assert found <= 100


def merged(X, **options):
    return nmf_merge(X, 4, n_extra=12, **{"max_iter": 40, "n_init": 1, **options})


def statuses(result):
    """How each start ended."""
    return [start.status for start in result.starts] or [result.status]


def count_products(X, slow, **options):
    """Products of the whole run, and those of them before the recovery."""
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        merged(X, **options)
    counts = slow.products, slow.at_recovery.pop()
    slow.products = 0
    return counts


@pytest.mark.parametrize("fit", [nmf, nmf_merge])
@pytest.mark.parametrize("init", ["nndsvd", "nndsvda", "nndsvdar"])
def test_time_is_over_in_the_svd_of_the_start(fit, init, X, slow):
    allowed = 12  # products; the whole takes more
    with pytest.warns(
        ConvergenceWarning, match=f"'start' .* max_time={float(allowed * SECONDS)} s"
    ):
        result = fit(X, 12, init=init, max_time=allowed * SECONDS)
    assert result.status is Status.MAX_TIME
    assert [stage.name for stage in result.stages] == ["start"]
    others = 3 if fit is nmf_merge else 0  # starts, whose errors take a product each
    assert allowed <= slow.products <= allowed + SETTLE + others
    check_valid(result, X, 12)


def test_a_run_that_stopped_in_the_start_can_be_reported(X, slow):
    with pytest.warns(ConvergenceWarning, match="max_time"):
        result = nmf(X, 2, max_time=SECONDS)
    assert "max_time" in str(result)
    assert "has not converged" in report.page(result)


@pytest.mark.parametrize("n_init", [1, 3])
@pytest.mark.parametrize("init", ["random", "nndsvd"])
@pytest.mark.parametrize("part", np.linspace(0.02, 0.98, 7))
def test_time_is_over_anywhere_after_the_start(init, part, n_init, X, slow):
    options = {"init": init, "n_init": n_init}
    products, before_recovery = count_products(X, slow, **options)
    allowed = int(before_recovery + part * (products - before_recovery))
    slow.products = 0
    with pytest.warns(ConvergenceWarning):
        result = merged(X, max_time=allowed * SECONDS, **options)
    assert Status.MAX_TIME in statuses(result)
    assert slow.products <= allowed + SETTLE + n_init - 1
    check_valid(result, X, 4)
    assert result.fitting_error <= result.stages[1].fitting_error * (1 + 1e-9)


def test_the_warning_names_the_recovery_when_time_is_over_there(X, slow):
    _, before_recovery = count_products(X, slow, init="random")
    with pytest.warns(ConvergenceWarning, match="stage 'recover' had not"):
        merged(X, init="random", max_time=(before_recovery + 2) * SECONDS)


def test_a_run_that_stopped_in_the_start_is_resumed_from_its_own_start(X, slow, tmp_path):
    options = {"max_iter": 5, "checkpoint": tmp_path / "run"}
    with pytest.warns(ConvergenceWarning, match="max_time"):
        nmf(X, 12, max_time=12 * SECONDS, **options)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        resumed = nmf(X, 12, **options)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        whole = nmf(X, 12, max_iter=5)
    np.testing.assert_array_equal(resumed.W, whole.W)


@pytest.mark.parametrize("product", [1, 5, 12])
def test_ctrl_c_in_the_svd_of_the_start_ends_at_once(product, X, slow):
    slow.interrupt_at = product
    with pytest.raises(KeyboardInterrupt) as caught:
        nmf_merge(X, 12)
    assert not isinstance(caught.value, Interrupted)  # there is nothing to keep
    assert slow.products == product


@pytest.mark.parametrize("n_init", [1, 3])
@pytest.mark.parametrize("init", ["random", "nndsvd"])
@pytest.mark.parametrize("part", np.linspace(0.0, 0.98, 7))
def test_ctrl_c_anywhere_after_the_start_keeps_what_was_found(init, part, n_init, X, slow):
    options = {"init": init, "n_init": n_init}
    products, before_recovery = count_products(X, slow, **options)
    slow.interrupt_at = int(before_recovery + 1 + part * (products - before_recovery - 1))
    with pytest.raises(Interrupted) as caught:
        merged(X, **options)
    result = caught.value.factorization
    assert Status.INTERRUPTED in statuses(result)
    assert slow.products <= slow.interrupt_at + SETTLE + n_init - 1
    check_valid(result, X, 4)
    assert result.fitting_error <= result.stages[1].fitting_error * (1 + 1e-9)


def test_ctrl_c_in_the_first_round_of_recovery_gives_the_initial_solution(X, slow):
    _, before_recovery = count_products(X, slow, init="random")
    slow.interrupt_at = before_recovery + 3
    with pytest.raises(Interrupted) as caught:
        merged(X, init="random")
    result = caught.value.factorization
    assert [stage.name for stage in result.stages] == ["start", "initial"]
    assert result.fitting_error == pytest.approx(result.stages[-1].fitting_error)


def test_ctrl_c_in_recover_components_is_not_lost(X, slow, rng):
    slow.interrupt_at = 6
    with pytest.raises(KeyboardInterrupt):
        recover_components(X, rng.random((300, 4)), rng.random((4, 200)), 3)
    assert slow.products <= 6 + SETTLE
