import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from sklearn.decomposition import non_negative_factorization

from nmfmerge import Status, metrics
from nmfmerge.backends.numba.alspgrad import Trial
from nmfmerge.losses import FROBENIUS, Problem
from nmfmerge.matrices import wrap
from nmfmerge.method.init import INITS
from nmfmerge.solvers import SOLVERS, Batch, Limits, Loop


def start(X, r, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((r, X.shape[0])), rng.random((r, X.shape[1]))


def tensor(X):
    torch = pytest.importorskip("torch")
    from nmfmerge.matrices.torch import TorchData

    return TorchData(torch.from_numpy(np.ascontiguousarray(X)))


def sparse_tensor(X):
    torch = pytest.importorskip("torch")
    from nmfmerge.matrices.torch import TorchData

    return TorchData(torch.from_numpy(np.ascontiguousarray(X)).to_sparse_csr())


KINDS = {
    "dense": wrap,
    "csr": lambda X: wrap(sp.csr_array(X)),
    "tensor": tensor,
    "sparse tensor": sparse_tensor,
}


pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # PyTorch's, once


@pytest.fixture(
    params=[pytest.param(kind, marks=[pytest.mark.tensors] * ("tensor" in kind)) for kind in KINDS]
)
def run(request):
    """Iterates from one start, on every kind of array; tells where it ended, and how."""

    def run_on_kind(solver, X, Wt, H, **options):
        data = KINDS[request.param](X)
        tol = options.pop("tol", 0.0)
        limits = Limits(**{"max_iter": 50, **options})
        batch = Batch(Problem(data, FROBENIUS), data.place(Wt[None], "W"), data.place(H[None], "H"))
        loop = Loop(SOLVERS[solver], batch, stage="final", tol=tol, limits=limits)
        (outcome,) = loop.run()
        return End(loop.batch), outcome

    return run_on_kind


class End:
    """A batch of one start, in NumPy."""

    def __init__(self, batch):
        self.Wt, self.H = (batch.kernels.to_host(F)[0] for F in (batch.Wt, batch.H))
        self.fitting_error = batch.fitting_errors()[0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_hals_is_scikit_learns_coordinate_descent_step_for_step(run, low_rank):
    Wt, H = start(low_rank, 6)
    W_sk, H_sk, _ = non_negative_factorization(
        low_rank, W=Wt.T.copy(), H=H.copy(), init="custom", n_components=6, solver="cd", tol=0,
        max_iter=50,
    )  # fmt: skip
    end, _ = run("hals", low_rank, Wt, H)
    np.testing.assert_allclose(end.Wt.T, W_sk, rtol=0, atol=1e-10 * W_sk.max())
    np.testing.assert_allclose(end.H, H_sk, rtol=0, atol=1e-10 * H_sk.max())


@pytest.mark.parametrize("solver", SOLVERS)
def test_objective_never_rises(run, solver, low_rank):
    errors = []
    run(solver, low_rank, *start(low_rank, 6), callback=lambda p: errors.append(p.fitting_error))
    assert len(errors) == 50
    assert np.all(np.diff(errors) <= 1e-12)
    assert errors[-1] < 0.5 * errors[0]


@pytest.mark.parametrize("solver", ["accelerated", "hals", "gcd", "alspgrad"])
def test_converged_solution_is_a_stationary_point(run, solver, low_rank):
    end, outcome = run(solver, low_rank, *start(low_rank, 3), tol=1e-9, max_iter=30_000)
    assert outcome.status is Status.CONVERGED
    assert metrics.kkt_residual(low_rank, end.Wt.T, end.H) < 1e-7


def test_mu_moves_towards_a_stationary_point(run, low_rank):
    residuals = []
    for max_iter in (10, 100, 1000):
        end, _ = run("mu", low_rank, *start(low_rank, 3), max_iter=max_iter)
        residuals.append(metrics.kkt_residual(low_rank, end.Wt.T, end.H))
    assert residuals[0] > 3 * residuals[1] > 9 * residuals[2]


@pytest.mark.parametrize("solver", SOLVERS)
def test_first_update_solves_for_one_component_exactly(solver, rng):
    """With one component each subproblem has the closed form max(0, c)/g."""
    X = rng.random((20, 15))
    Wt, H = start(X, 1)
    first = SOLVERS[solver].order[0]
    F, other = (Wt, H) if first == "W" else (H, Wt)
    known = other[0].copy()
    expected = (X @ known if first == "W" else known @ X) / (known @ known)
    batch = Batch(Problem(wrap(X), FROBENIUS), Wt[None], H[None])
    one = SOLVERS[solver](batch)
    one.clear_steps(batch)
    one.update(batch, first)
    loose = solver in ("gcd", "alspgrad")  # these solve their subproblem to a tolerance
    np.testing.assert_allclose(F[0], expected, rtol=0.2 if loose else 1e-5)


@pytest.mark.parametrize("p", [6, 700])
def test_alspgrad_subproblem_ends_near_the_nonnegative_least_squares_solution(rng, p):
    A = rng.random((40, 4))
    B = rng.standard_normal((40, p))
    F = np.ones((4, p))
    batch = Batch(Problem(wrap(np.ones((p, p))), FROBENIUS), F[None], F[None])
    solver = SOLVERS["alspgrad"](batch)
    for _ in range(20):
        solver.update_(batch, "H", F[None], (A.T @ A)[None], (A.T @ B)[None])
    np.testing.assert_allclose(F, np.stack([nnls(A, b)[0] for b in B.T], axis=1), atol=1e-9)


def test_alspgrad_judges_a_step_by_all_columns(rng):
    """A trial looks at parts of the columns; its verdict is that of Lin's test on the whole."""
    A = rng.random((40, 4))
    G = A.T @ A
    F, C = rng.random((4, 700)), G @ rng.random((4, 700))
    gradient = G @ F - C
    trial = Trial(F)
    weights = 1 / np.diag(G)
    verdicts = []
    for alpha in np.geomspace(0.01, 10, 60):
        step = np.maximum(0, F - alpha * weights[:, None] * gradient) - F
        good = 0.99 * np.vdot(gradient, step) + 0.5 * np.vdot(step, G @ step) < 0
        assert trial.make(F, G, gradient, weights, alpha) == good
        if good:
            np.testing.assert_allclose(trial.F, F + step, atol=1e-12)
            np.testing.assert_allclose(trial.G_step, G @ step, atol=1e-12)
        verdicts.append(good)
    assert 10 < sum(verdicts) < 50
    assert not trial.make(F, G, np.where(gradient < 0, -1e200, 0), weights, 1e10)  # −∞ + ∞


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(exponents=st.lists(st.floats(-4, 4), min_size=4, max_size=4), dtype=st.sampled_from("fd"))
def test_alspgrad_does_not_depend_on_how_components_share_their_size(run, exponents, dtype):
    """From W diag(d), diag(1/d) H the iterates are those from W, H, rescaled alike."""
    rng = np.random.default_rng(7)
    X = (rng.random((60, 5)) @ rng.random((5, 45)) + 0.05 * rng.random((60, 45))).astype(dtype)
    Wt, H = (F.astype(dtype) for F in start(X, 4))
    d = (10 ** np.array(exponents))[:, None].astype(dtype)
    scaled, _ = run("alspgrad", X, Wt * d, H / d, max_iter=5)
    plain, _ = run("alspgrad", X, Wt, H, max_iter=5)
    tolerance = 1e5 * np.finfo(dtype).eps
    for ours, theirs in ((scaled.Wt / d, plain.Wt), (scaled.H * d, plain.H)):
        np.testing.assert_allclose(ours, theirs, atol=tolerance * theirs.max())


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_alspgrad_leaves_components_without_curvature_alone(rng, dtype):
    """Also where the size of the other factor is so small that its square is nothing."""
    A = rng.random((40, 4)).astype(dtype)
    A[:, 1] = 0
    A[:, 2] *= 1e-200 if dtype == "d" else 1e-30
    F = rng.random((4, 30)).astype(dtype)
    before = F.copy()
    batch = Batch(Problem(wrap(np.ones((30, 30), dtype)), FROBENIUS), F[None], F[None])
    C = A.T @ rng.random((40, 30)).astype(dtype)
    SOLVERS["alspgrad"](batch).update_(batch, "H", F[None], (A.T @ A)[None], C[None])
    np.testing.assert_array_equal(F[1:3], before[1:3])
    assert np.isfinite(F).all()
    assert (F[0] != before[0]).any()


def test_multiplicative_updates_keep_zeros_and_hals_revives_them(run, low_rank):
    Wt, H = start(low_rank, 4)
    Wt[2] = 0
    mu, _ = run("mu", low_rank, Wt.copy(), H.copy())
    assert not mu.Wt[2].any()
    hals, _ = run("hals", low_rank, Wt.copy(), H.copy())
    assert hals.Wt[2].any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_zero_components_stay_finite(run, solver, low_rank):
    Wt, H = start(low_rank, 4)
    Wt[1] = 0
    H[1] = 0
    end, _ = run(solver, low_rank, Wt, H)
    assert np.isfinite(end.Wt).all()
    assert np.isfinite(end.H).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_step_rule_is_on_norms(run, solver, low_rank):
    """The recorded step is the largest ‖new − old‖/‖new + old‖ over columns of W and rows of H."""
    Wt, H = start(low_rank, 3)
    old = [Wt.copy(), H.copy()]
    end, outcome = run(solver, low_rank, Wt, H, max_iter=1)
    steps = [
        np.linalg.norm(new - before, axis=1) / np.linalg.norm(new + before, axis=1)
        for new, before in zip((end.Wt, end.H), old, strict=True)
    ]
    assert outcome.history.step[0] == pytest.approx(np.max(steps), rel=1e-9)


def test_negligible_component_counts_as_settled(run, rng):
    """On an exact fit a surplus component is rounding noise whose direction never settles."""
    W, H = rng.random((30, 2)), rng.random((2, 25))
    Wt0 = np.concatenate([W.T, 1e-17 * rng.random((1, 30))])
    H0 = np.concatenate([H, rng.random((1, 25))])
    _, outcome = run("hals", W @ H, Wt0, H0, tol=1e-4, max_iter=500)
    assert outcome.status is Status.CONVERGED
    assert outcome.n_iter < 50


@pytest.mark.parametrize("solver", ["accelerated", "hals", "gcd", "alspgrad"])
def test_a_component_revived_from_zero_is_not_taken_for_settled(run, solver, rng):
    X = np.kron(np.eye(2), rng.random((10, 1)) @ rng.random((1, 8)))
    Wt = np.stack([X[:, 0], np.zeros(20)])
    H = np.stack([X[0], np.r_[np.zeros(8), rng.random(8)]])
    end, _ = run(solver, X, Wt, H, tol=1e-6, max_iter=500)
    assert end.fitting_error < 1e-6


def test_limits_and_callback_end_the_run(run, low_rank):
    Wt, H = start(low_rank, 3)
    _, capped = run("hals", low_rank, Wt.copy(), H.copy(), max_iter=7)
    assert (capped.status, capped.n_iter) == (Status.MAX_ITER, 7)
    _, timed = run("hals", low_rank, Wt.copy(), H.copy(), max_time=0.05, max_iter=10**8)
    assert timed.status is Status.MAX_TIME
    _, stopped = run(
        "hals", low_rank, Wt.copy(), H.copy(), callback=lambda progress: progress.iteration == 4
    )
    assert (stopped.status, stopped.n_iter) == (Status.CALLBACK, 4)
    _, done = run("hals", low_rank, Wt.copy(), H.copy(), tol=1e-3, max_iter=10_000)
    assert done.status is Status.CONVERGED
    assert done.history.step[-1] <= 1e-3 < done.history.step[-2]


def test_callback_sees_the_present_point_and_history_keeps_what_it_asked_for(run, low_rank):
    seen = []

    def watch(progress):
        if progress.iteration % 2:
            W, H = progress.W, progress.H
            fit = np.asarray(W) @ np.asarray(H)
            seen.append(100 * np.sum((low_rank - fit) ** 2) / np.sum(low_rank**2))
            assert progress.fitting_error == pytest.approx(seen[-1], rel=1e-9)
            if isinstance(W, np.ndarray):
                with pytest.raises(ValueError, match="read-only"):
                    W[0, 0] = 1

    _, outcome = run("hals", low_rank, *start(low_rank, 3), max_iter=6, callback=watch)
    np.testing.assert_allclose(outcome.history.fitting_error[::2], seen, rtol=1e-9)
    assert np.isnan(outcome.history.fitting_error[1::2]).all()
    assert np.all(np.diff(outcome.history.seconds) > 0)


def test_batch_computes_a_product_once_per_change(low_rank):
    data = wrap(low_rank)
    calls = []
    data.HXt = lambda H, out: calls.append("HXt") or np.dot(H, low_rank.T, out=out)
    data.WtX = lambda Wt, out: calls.append("WtX") or np.dot(Wt, low_rank, out=out)
    batch = Batch(Problem(data, FROBENIUS), *(F[None] for F in start(low_rank, 3)))
    for _ in range(3):
        SOLVERS["hals"](batch).iterate(batch)
        batch.value()
        batch.fitting_errors()
    assert calls == ["HXt", "WtX"] * 3


@pytest.mark.parametrize("init", INITS)
def test_objective_from_products_is_the_residual(init, low_rank):
    data = wrap(low_rank)
    Wt, H = INITS[init](data, 4, np.random.default_rng(0))
    batch = Batch(Problem(data, FROBENIUS), Wt[None], H[None])
    assert 2 * batch.value()[0] == pytest.approx(data.residual_norm2(Wt, H), rel=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_start_far_too_large_does_not_end_at_zero(run, solver, low_rank):
    Wt, H = start(low_rank, 6)
    end, outcome = run(solver, 1e-6 * low_rank, Wt, H, tol=1e-4, max_iter=5000)
    assert outcome.status is Status.CONVERGED
    assert end.fitting_error < 1
