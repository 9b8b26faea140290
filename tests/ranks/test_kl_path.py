"""The path through all ranks under Kullback–Leibler."""

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import metrics, nmf, rank_path
from nmfmerge.losses import KULLBACK_LEIBLER
from nmfmerge.matrices import wrap
from nmfmerge.ranks.alternatives import around
from nmfmerge.ranks.residual import ResidualStructure
from nmfmerge.results.assessment import Evidence, Finding, assess

KL = {"beta_loss": "kullback-leibler"}


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    W, H = rng.gamma(0.3, size=(60, 4)), rng.gamma(0.3, size=(4, 80))
    return rng.poisson(40 * W @ H / (W @ H).mean()).astype(float)


@pytest.fixture(scope="module")
def path(X):
    return rank_path(X, 8, **KL)


def test_every_rank_has_the_error_of_the_loss(path, X):
    assert path.ranks.tolist() == list(range(1, 9))
    for result in path.values():
        assert result.loss == "kullback-leibler"
        error = metrics.fitting_error(X, result.W, result.H, **KL)
        assert result.fitting_error == pytest.approx(error)
    assert (np.diff(path.fitting_errors) <= 0).all()
    assert path[1].fitting_error == pytest.approx(100, abs=1e-4)  # that of the margins


@pytest.mark.parametrize("rank", [3, 4, 6])
def test_no_rank_is_worse_than_a_fit_of_its_own(path, X, rank):
    assert path[rank].fitting_error < 1.002 * nmf(X, rank, tol=1e-3, **KL).fitting_error


def test_the_penalty_is_that_of_the_cheapest_merge(path, X):
    for rank in (2, 4):
        result = path[rank]
        trees = metrics.next_merges(result.W, result.H, **KL)
        size = KULLBACK_LEIBLER.size(wrap(X))
        assert path.penalties[rank - 1] >= 100 * trees.penalties[0] / size * (1 - 1e-6)
    assert path.penalties[3] > 10 * path.penalties[4]


def test_what_is_left_at_the_true_rank_is_noise(path):
    assert path.structure[3] < 1.25
    assert path.structure[2] > 1.5


def test_residuals_are_pearsons(X, path):
    result = path[2]
    Y = result.W @ result.H
    R = (X - Y) / np.sqrt(np.maximum(Y, 1e-3 * X.mean()))
    rng = np.random.default_rng(0)
    signs = [rng.integers(0, 2, R.shape, dtype=np.int8) * 2 - 1 for _ in range(3)]
    by_chance = np.mean([np.linalg.norm(R * sign, 2) ** 2 for sign in signs])
    expected = np.linalg.norm(R, 2) ** 2 / by_chance
    found = ResidualStructure(wrap(X), KULLBACK_LEIBLER).structure(result.W.T, result.H)
    assert found == pytest.approx(expected, rel=1e-2)


def test_the_rank_is_found_but_no_confidence_is_given(path):
    found = path.assess()
    assert found.rank == 4
    assert found.confidence == "none"
    assert not found.stands_out
    assert "No confidence is given" in found.reason
    record = Evidence.from_record(path.evidence().as_record())
    assert assess(record).reason == found.reason
    del (old := path.evidence().as_record())["loss"]
    assert "calibrated" not in assess(Evidence.from_record(old)).reason


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (Finding.NOISE, "looks like noise"),
        (Finding.BEND, "less than a third"),
        (Finding.RANGE, "no clear structure"),
        (Finding.NONE, "bends most"),
    ],
)
def test_each_finding_is_said_without_a_confidence(finding, said, monkeypatch):
    from nmfmerge.results import assessment as module

    known = module.Assessment(3, 3, 5, module.Confidence.HIGH, finding, "Rank 3 stands out.")
    monkeypatch.setattr(module, "_assess", lambda evidence: known)
    unknown = np.full(5, np.nan)
    evidence = Evidence(
        np.arange(1, 6), unknown, unknown, unknown, unknown, (30, 30), "kullback-leibler"
    )
    found = assess(evidence)
    assert said in found.reason
    assert (found.rank, found.low, found.confidence) == (3, None, "none")


def test_sparse_data_and_multiplicative_updates_have_a_path_too(X, path):
    sparse = rank_path(sp.csr_array(X), 5, 3, **KL)
    np.testing.assert_allclose(sparse.fitting_errors, path.fitting_errors[2:5], rtol=2e-2)
    mu = rank_path(X, 4, 2, solver="mu", **KL)
    np.testing.assert_allclose(mu.fitting_errors, path.fitting_errors[1:4], rtol=0.1)


def test_stability_is_measured(X):
    path = rank_path(X, 5, 3, stability=True, **KL)
    assert np.isfinite(path.stability).all()


def test_ranks_around_a_fit_are_of_its_loss(X):
    record = around(X, nmf(X, 4, **KL))
    assert record["loss"] == "kullback-leibler"
    assert assess(Evidence.from_record(record)).rank == 4


def test_solvers_and_data_that_do_not_fit_are_refused(X):
    with pytest.raises(ValueError, match="solver='hals' does not minimise"):
        rank_path(X, 3, solver="hals", **KL)
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=r"beta_loss.*needs X in memory"):
        rank_path(da.from_array(X, chunks=30), 3, **KL)
