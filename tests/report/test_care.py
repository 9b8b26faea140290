from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import Factorization, MergeTree, Status, datasets, nmf_merge
from nmfmerge.report import page, warnings_of


@pytest.fixture
def good(rng):
    """Five disjoint components of like size, with a residual of one percent."""
    W = np.kron(np.eye(5), np.ones((20, 1))) * (1 + rng.random((100, 5)))
    H = np.kron(np.eye(5), np.ones((1, 12))) * (1 + rng.random((5, 60)))
    size2 = float(np.sum((W @ H) ** 2))
    return Factorization(
        W, H, 0.005 * size2, 1.0, (), Status.CONVERGED, 0.1,
        merges=MergeTree(6, [(0, 5)], [1.0]), generalized_singular_values=np.array([1.2]),
    )  # fmt: skip


def only(sentences, start):
    assert len(sentences) == 1, sentences
    assert sentences[0].startswith(start)
    return sentences[0]


def test_nothing_to_say_of_a_good_result(good, fitted):
    assert warnings_of(good) == []
    assert "Nothing was found that calls for special care" in page(good)
    data, _ = fitted
    assert warnings_of(nmf_merge(data.X, 5, n_init=1), data) == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.MAX_ITER, "limit of iterations"),
        (Status.MAX_TIME, "time limit"),
        (Status.CALLBACK, "callback"),
        (Status.INTERRUPTED, "interrupted"),
    ],
)
def test_not_converged(good, status, words):
    assert words in only(warnings_of(replace(good, status=status)), "The run has not converged")


def test_zero_component(good):
    H = good.H.copy()
    H[2] = 0
    text = only(warnings_of(replace(good, H=H)), "Component 3 is zero")
    assert "fitted by 4 components" in text


def test_weak_component(good):
    H = good.H.copy()
    H[1] *= 0.05
    few = replace(good, H=H, objective=1e-6 * good.objective)
    text = only(warnings_of(few), "A component carries less than 0.1 % of the fit: 2 with")
    assert "weak" in text


@pytest.mark.parametrize("factor", ["columns of W", "rows of H"])
def test_parallel_components(good, factor):
    W, H = good.W.copy(), good.H.copy()
    if factor == "rows of H":
        H[3] = H[0] + 0.01
    else:
        W[:, 3] = W[:, 0] + 0.01
    less = replace(good, W=W, H=H, objective=1e-9 * good.objective)
    text = only(warnings_of(less), "Components 1 and 4 are nearly parallel")
    assert factor in text


def test_fewer_components_might_do_where_the_rank_is_too_large(rng):
    X = rng.random((80, 4)) ** 3 @ rng.random((4, 60)) ** 3
    X += 0.05 * np.abs(rng.standard_normal(X.shape))
    assert not [s for s in warnings_of(nmf_merge(X, 4)) if s.startswith("Fewer")]
    many = [s for s in warnings_of(nmf_merge(X, 6)) if s.startswith("Fewer components might do")]
    assert "Try 4 components" in only(many, "Fewer")


def test_missing_components(good):
    few = replace(good, generalized_singular_values=np.array([np.inf, 40.0]))
    assert "from 40 upwards" in only(warnings_of(few), "Components may still be missing: all 2")
    assert warnings_of(replace(good, generalized_singular_values=np.array([np.inf, 1.1]))) == []


def test_exact_fit(good):
    only(warnings_of(replace(good, fitting_error=1e-20, objective=0.0)), "The fit is exact")


def test_rank_close_to_the_smaller_side(good):
    W, H = np.eye(6, 5) + 0.01, np.eye(5, 6) + 0.01
    few = replace(good, W=W, H=H, objective=1e-9)
    assert "the smaller side of the data, 6" in only(warnings_of(few), "The rank, 5, is close")


def test_sentences_say_where_components_are():
    data = datasets.lcms_like(60, 90, 5)
    sentences = warnings_of(nmf_merge(data.X, 9), data)
    assert any("peak at m/z" in sentence for sentence in sentences)
