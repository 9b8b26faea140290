"""The merge under Kullback–Leibler, by numerical optimisation and direct sums."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import entropy

from nmfmerge.backends import reference_kl as reference
from nmfmerge.losses.kl_divergence import Divergence
from nmfmerge.losses.kl_merging import MassComponents
from nmfmerge.losses.merging import merge_plan
from nmfmerge.matrices.dense import DenseData


def components(r, m, n, seed, sparse=0.3):
    rng = np.random.default_rng(seed)
    Wt, H = (rng.gamma(0.5, size=(r, p)) * (rng.random((r, p)) > sparse) for p in (m, n))
    return Wt + 1e-12 * (Wt.sum(axis=1, keepdims=True) == 0), H


def kl_merge_plan(Wt, H, n_components, rises=None, held=None, **limits):
    return merge_plan(MassComponents(Wt, H, held, rises), n_components, **limits)


@pytest.mark.parametrize("seed", range(5))
def test_the_merged_component_is_the_optimum(seed):
    """BFGS on the logarithms of both vectors finds nothing better."""
    Wt, H = components(2, 7, 9, seed)
    both = Wt.T @ H
    plan = kl_merge_plan(Wt, H, 1)
    merged = reference.divergence(both, (plan.A @ Wt).T @ (plan.B @ H) + 1e-300)

    def cost(logs):
        w, h = np.exp(logs[:7]), np.exp(logs[7:])
        Y = np.outer(w, h)
        rest = np.where(both > 0, both, 0) - Y  # minus the gradient by log Y
        return reference.divergence(both, Y), np.concatenate([-rest.sum(axis=1), -rest.sum(axis=0)])

    start = np.log(np.concatenate([Wt.mean(axis=0) + 0.1, H.mean(axis=0) + 0.1]))
    with np.errstate(over="ignore"):  # of a step that is tried and refused
        best = minimize(cost, start, jac=True, method="BFGS", options={"gtol": 1e-10})
    assert merged == pytest.approx(best.fun, rel=1e-7)
    assert merged <= best.fun * (1 + 1e-12)


@pytest.mark.parametrize("likeness", [0, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("seed", range(5))
def test_the_penalty_is_the_mutual_information(seed, likeness):
    Wt, H = components(2, 120, 90, seed)
    Wt[1] = likeness * Wt[0] + (1 - likeness) * Wt[1]
    H[1] = likeness * H[0] + (1 - likeness) * H[1]
    exact = reference.information(Wt[0], H[0], Wt[1], H[1])
    assert kl_merge_plan(Wt, H, 1).tree.penalties[0] == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_the_penalty_is_below_what_one_side_tells_of_the_component(seed):
    """Row and column know no more of each other than either knows of the component."""
    Wt, H = components(2, 120, 90, seed)
    sums = Wt.sum(axis=1), H.sum(axis=1)
    masses = sums[0] * sums[1]
    bounds = []
    for F, total in zip((Wt, H), sums, strict=True):
        parts = masses[:, None] * F / total[:, None]
        bounds.append(entropy(parts.sum(axis=0)) - masses @ entropy(parts, axis=1) / masses.sum())
    penalty = kl_merge_plan(Wt, H, 1).tree.penalties[0]
    assert 0 < penalty <= masses.sum() * min(bounds) * (1 + 1e-9)


def test_near_duplicates_have_a_penalty_too():
    rng = np.random.default_rng(0)
    Wt, H = rng.random((2, 50)) + 1, rng.random((2, 60)) + 1
    Wt[1], H[1] = Wt[0] * (1 + 1e-4 * rng.random(50)), H[0] * (1 + 1e-4 * rng.random(60))
    near = Wt.astype(np.longdouble), H.astype(np.longdouble)
    both = near[0].T @ near[1]
    margins = np.outer(both.sum(axis=1), both.sum(axis=0)) / both.sum()
    z = both / margins - 1
    exact = float((margins * z**2).sum() / 2)  # to the third order in z
    assert kl_merge_plan(Wt, H, 1).tree.penalties[0] == pytest.approx(exact, rel=1e-3)


def test_rises_are_differences_of_the_divergence():
    rng = np.random.default_rng(1)
    X = rng.poisson(4, (30, 40)).astype(float)
    Wt, H = components(5, 30, 40, 2, sparse=0)
    divergence = Divergence(DenseData(X))
    asked = []

    def rises(W_now, H_now, w_steps, h_steps):
        values = divergence.rises(W_now, H_now, w_steps, h_steps)
        Y = W_now.T @ H_now
        before = reference.divergence(X, Y)
        for value, w_step, h_step in zip(values, w_steps, h_steps, strict=True):
            after = reference.divergence(X, Y - np.outer(w_step, h_step))
            assert value == pytest.approx(after - before, abs=1e-9)
        asked.append((len(values), before + values.min()))
        return values

    plan = kl_merge_plan(Wt, H, 2, rises)
    assert [count for count, _ in asked] == [8, 6, 3]
    merged = reference.divergence(X, (plan.A @ Wt).T @ (plan.B @ H))
    assert merged == pytest.approx(asked[-1][1])


def test_merging_keeps_the_mass_and_its_margins():
    Wt, H = components(6, 20, 25, 3)
    plan = kl_merge_plan(Wt, H, 2)
    before, after = Wt.T @ H, (plan.A @ Wt).T @ (plan.B @ H)
    np.testing.assert_allclose(after.sum(axis=0), before.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(after.sum(axis=1), before.sum(axis=1), rtol=1e-12)


def test_components_that_are_held_do_not_merge():
    Wt, H = components(5, 20, 25, 4)
    Wt[1], H[1] = Wt[0], H[0]  # would cost nothing
    plan = kl_merge_plan(Wt, H, 3, held=np.array([True, False, False, False, False]))
    assert 0 not in plan.tree.pairs
    np.testing.assert_array_equal((plan.A @ Wt)[0], Wt[0])
    np.testing.assert_array_equal((plan.B @ H)[0], H[0])


def test_a_component_that_is_zero_merges_at_no_cost():
    Wt, H = components(4, 20, 25, 5)
    H[2] = 0
    plan = kl_merge_plan(Wt, H, 3)
    assert plan.tree.penalties.tolist() == [0]
    assert 2 in plan.tree.pairs[0]
    np.testing.assert_allclose((plan.A @ Wt).T @ (plan.B @ H), Wt.T @ H, rtol=1e-12)


def test_a_limit_and_an_order_are_followed():
    Wt, H = components(6, 20, 25, 6)
    free = kl_merge_plan(Wt, H, 1).tree.penalties
    limit = free[1] * 1.001
    assert (kl_merge_plan(Wt, H, 1, max_penalty=limit).tree.penalties <= limit).all()
    masses = Wt.sum(axis=1) * H.sum(axis=1)
    least = kl_merge_plan(Wt, H, 5, order=lambda penalty, p, q: p + q)
    assert sorted(least.tree.pairs[0]) == sorted(np.argsort(masses)[:2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_plan_does_not_depend_on_the_scales_of_components(dtype):
    Wt, H = components(6, 20, 25, 7)
    scales = 2.0 ** np.array([-20, 3, 0, 12, -7, 18])
    plan = kl_merge_plan(Wt.astype(dtype), H.astype(dtype), 2)
    scaled = kl_merge_plan(
        (Wt * scales[:, None]).astype(dtype), (H / scales[:, None]).astype(dtype), 2
    )
    np.testing.assert_array_equal(plan.tree.pairs, scaled.tree.pairs)
    np.testing.assert_allclose(plan.tree.penalties, scaled.tree.penalties, rtol=1e-10)
