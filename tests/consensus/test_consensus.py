"""`consensus`: the truth is found, the rank is chosen, and the same call gives the same bits."""

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from nmfmerge import Consensus, consensus, nmf, transform
from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.consensus.engine import ConsensusInterrupted
from nmfmerge.metrics import fitting_error, match_components
from nmfmerge.results.assessment import Evidence
from nmfmerge.solvers.history import Status
from nmfmerge.storage.checkpoint import CheckpointError, OtherRun

RANK = 4


@pytest.fixture(scope="module")
def truth():
    """Counts of four sparse components."""
    rng = np.random.default_rng(0)
    H = rng.gamma(0.3, 1.0, (RANK, 50))
    H /= H.sum(axis=1, keepdims=True)
    W = rng.gamma(0.5, 2000.0, (40, RANK))
    return rng.poisson(W @ H).astype(float), W, H


def quick(X, ranks=RANK, **given):
    return consensus(X, ranks, **({"n_fits": 8, "tol": 1e-3} | given))


@pytest.fixture(scope="module")
def found(truth):
    return quick(truth[0], "2-7", resample="poisson")


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
@pytest.mark.parametrize("resample", [None, "poisson", "rows", "columns"])
def test_components_of_generated_data_are_found(truth, loss, resample):
    X, W, H = truth
    at = quick(X, resample=resample, beta_loss=loss)[RANK]
    assert at.side == ("W" if resample == "columns" else "H")
    pair = (W, at.W) if at.side == "W" else (H.T, at.H.T)
    assert match_components(*pair)[1].min() > 0.98
    assert at.agreement == 1
    assert at.factorization.loss == loss
    assert at.fitting_error == pytest.approx(fitting_error(X, at.W, at.H, beta_loss=loss))


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
def test_the_other_factor_is_refitted_to_x(truth, loss):
    X = truth[0]
    on_H = quick(X, beta_loss=loss)[RANK]
    assert np.allclose(on_H.H.sum(axis=1), 1)
    assert np.allclose(on_H.W, transform(X, on_H.H, beta_loss=loss), rtol=1e-4)
    on_W = quick(X, beta_loss=loss, side="W")[RANK]
    assert np.allclose(on_W.W.sum(axis=0), 1)
    assert np.allclose(on_W.H, transform(X.T, on_W.W.T, beta_loss=loss).T, rtol=1e-4)
    share = on_W.factorization.shares()
    assert (np.diff(share) <= 0).all()


def test_without_resampling_it_is_the_median_of_what_nmf_finds(truth):
    X = truth[0]
    at = consensus(X, RANK, n_fits=3)[RANK]
    H = nmf(X, RANK, init="random", random_state=7).H
    assert match_components(H.T, at.H.T)[1].min() > 0.999
    assert at.components.shape == (3, RANK, 50)
    assert np.allclose(np.linalg.norm(at.components, axis=2), 1)


def test_the_rank_is_chosen_with_the_words_of_a_rank_path(found):
    assert found.first_choice == RANK
    assert found.assess().rank == RANK
    assert "Rank 4 stands out" in str(found.assess())
    least = np.array([found[r].least_silhouette for r in found])
    assert least[2] > 0.9  # of rank 4
    assert least[3:].max() < 0.5
    evidence = found.evidence()
    assert evidence.stable_in == "fits"
    again = Evidence.from_record(json.loads(json.dumps(evidence.as_record())))
    assert again.stable_in == "fits"


def test_ranks_that_are_not_consecutive_are_not_judged(truth):
    result = quick(truth[0], [2, 4, 6], n_fits=4)
    assert "at least 4 consecutive ranks" in str(result.assess())


def test_bands_hold_the_components(found):
    for at in found.results:
        assert at.low.shape == at.high.shape == at.H.shape
        assert (at.low <= at.H * (1 + 1e-9)).all()
        assert (at.high >= at.H * (1 - 1e-9)).all()


def test_a_band_has_nine_tenths_of_the_draws(truth):
    X, _, H = truth
    at = quick(X, resample="poisson", n_fits=60, beta_loss="kl")[RANK]
    order, _ = match_components(H.T, at.H.T)
    large = H > 0.02
    covered = (at.low[order] <= H) & (at.high[order] >= H)
    assert covered[large].mean() > 0.6  # Poisson counts of counts: the band is of their noise


def test_labels_matches_and_components_are_in_the_order_of_the_result(found):
    at = found[RANK]
    for k in range(RANK):
        members = at.components[at.labels == k]
        assert (members @ (at.H[k] / np.linalg.norm(at.H[k])) > 0.9).all()
    assert np.array_equal(np.sort(at.matches, axis=1), np.tile(np.arange(RANK), (8, 1)))
    assert at.n_outliers == (at.labels == -1).sum()
    assert (at.n_found() == 8).all()


@pytest.mark.parametrize("resample", [None, "poisson"])
def test_same_bits_for_any_number_of_threads_and_of_fits(truth, resample):
    several = quick(truth[0], "3-4", resample=resample)
    with threadpool_limits(1):
        alone = quick(truth[0], 4, resample=resample, n_fits=12)
    assert np.array_equal(several[4].components, alone[4].components[:8])
    again = quick(truth[0], "3-4", resample=resample)
    assert np.array_equal(several[4].H, again[4].H)
    other = quick(truth[0], 4, resample=resample, random_state=1)
    assert not np.array_equal(several[4].H, other[4].H)


def test_sparse_float32_and_scaled_data_give_the_same(truth):
    X = truth[0]
    expected = quick(X)[RANK].H
    for form in (sp.csr_array(X), sp.csc_array(X), X.astype(np.float32), X * 4.0**30):
        at = quick(form)[RANK]
        assert match_components(expected.T, at.H.T)[1].min() > 0.9999


def test_nmf_merge_inside(truth):
    X, _, H = truth
    result = quick(X, merge=True)
    assert result.merge
    assert match_components(H.T, result[RANK].H.T)[1].min() > 0.98


def test_a_killed_run_continues_to_the_same_bits(truth, tmp_path):
    file, expected = tmp_path / "fits.npz", quick(truth[0], "3-4", resample="poisson")
    stopped = quick(
        truth[0], "3-4", resample="poisson", checkpoint=file, callback=lambda p: p.n_done == 7
    )
    assert stopped.status is Status.CALLBACK
    assert sum(at.n_fits for at in stopped.results) == 7
    made = []
    result = quick(
        truth[0], "3-4", resample="poisson", checkpoint=file,
        callback=lambda p: made.append(p.n_done),
    )  # fmt: skip
    assert made == list(range(8, 17))
    for rank in (3, 4):
        for name in ("W", "H", "errors", "matches", "components", "low", "high"):
            assert np.array_equal(getattr(result[rank], name), getattr(expected[rank], name))
    more = quick(truth[0], 4, resample="poisson", checkpoint=file, n_fits=9)
    assert np.array_equal(more[4].components[:8], expected[4].components)
    assert not (tmp_path / ".fits.npz.nmfmerge-lock").exists()


def test_a_checkpoint_of_another_run_is_refused(truth, tmp_path):
    file = tmp_path / "fits.npz"
    quick(truth[0], 2, n_fits=2, checkpoint=file)
    with pytest.raises(OtherRun) as refused:
        quick(truth[0], 2, n_fits=2, checkpoint=file, merge=True, tol=1e-2)
    assert set(refused.value.differences) == {"merge", "tol"}
    with pytest.raises(OtherRun, match="other data"):
        quick(truth[0] + 1, 2, n_fits=2, checkpoint=file)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckpointError):
        quick(truth[0], 2, n_fits=2, checkpoint=file)


def test_ctrl_c_keeps_the_finished_fits(truth):
    def stop(progress):
        if progress.n_done == 6:
            raise KeyboardInterrupt

    with pytest.raises(ConsensusInterrupted) as interrupted:
        quick(truth[0], "3-4", callback=stop)
    kept = interrupted.value.consensus
    assert kept.status is Status.INTERRUPTED
    assert [at.n_fits for at in kept.results] == [3, 3]
    assert np.isnan(kept[3].penalty)
    assert isinstance(kept.first_choice, int)
    copy = pickle.loads(pickle.dumps(interrupted.value))
    assert copy.consensus.ranks == (3, 4)

    def at_once(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as nothing:
        quick(truth[0], callback=at_once)
    assert not isinstance(nothing.value, ConsensusInterrupted)


def test_limits_are_named_in_warnings(truth):
    with pytest.warns(ConvergenceWarning, match=r"8 of 8 fits had not converged.*max_iter=2"):
        assert quick(truth[0], max_iter=2).status is Status.MAX_ITER
    with pytest.raises(ArgumentError, match="max_time ended the run"):
        quick(truth[0], max_time=1e-9)


def test_a_run_that_was_stopped_is_not_judged(truth):
    stopped = quick(truth[0], "2-6", callback=lambda progress: progress.n_done == 12)
    assert stopped.status is Status.CALLBACK
    assert stopped.assess().reason == "The rank is not judged: the run was stopped before that."
    assert stopped.first_choice in stopped


def test_one_rank_is_named_where_it_is_the_only_one(truth):
    assert "Consensus of 8 fits at rank 4 of a 40 × 50 matrix" in repr(quick(truth[0]))


def test_zero_rows_columns_and_matrices_are_legal(truth):
    X = truth[0].copy()
    X[3], X[:, 5] = 0, 0
    at = quick(X, resample="poisson")[RANK]
    assert np.isfinite(at.W).all()
    assert (at.W[3] == 0).all()
    assert (at.H[:, 5] == 0).all()
    for loss in ("frobenius", "kl"):
        zero = quick(np.zeros((6, 5)), "1-2", resample="poisson", beta_loss=loss)
        assert all(np.isfinite(at.W).all() and np.isfinite(at.H).all() for at in zero.results)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ranks": 60}, "ranks go up to 60, too high for X with 40 rows and 50 columns"),
        ({"ranks": 38, "resample": "rows"}, r"of which each fit has 36 × 50\): use at most 36"),
        ({"ranks": "five"}, "ranks='five' is not known"),
        ({"ranks": []}, "is empty"),
        ({"ranks": "5-3"}, "ranks='5-3' is empty"),
        ({"ranks": 0}, "ranks=0 is out of range"),
        ({"n_fits": 1}, "n_fits=1 is out of range"),
        ({"resample": "genes"}, "resample='genes' is not known"),
        ({"resample": "rows", "side": "W"}, "side='W' cannot be matched with resample='rows'"),
        ({"random_state": np.random.default_rng(0), "checkpoint": "x"}, "random_state is a"),
    ],
)
def test_errors_name_the_argument(truth, given, said):
    with pytest.raises(ValueError, match=said):
        quick(truth[0], **given)


def test_ranks_are_read_from_text(truth):
    assert quick(truth[0], "3,2", n_fits=2).ranks == (2, 3)
    assert quick(truth[0], range(2, 4), n_fits=2).ranks == (2, 3)


def test_it_is_a_collection_of_ranks(found):
    assert isinstance(found, Consensus)
    assert list(found) == list(found.ranks) == [2, 3, 4, 5, 6, 7]
    assert len(found) == 6
    assert 4 in found
    assert found[4] is found.at(4)
    with pytest.raises(KeyError, match="rank 9 was not fitted"):
        found[9]
    with pytest.raises(ArgumentError, match="rank=9 was not fitted; expected one of 2, 3"):
        found.at(9)
    assert [row["rank"] for row in found.table()] == list(found)


def test_it_prints_and_shows_itself(found):
    text = repr(found)
    assert "Consensus of 8 fits at each of 6 ranks of a 40 × 50 matrix" in text
    assert len(text.splitlines()) == 8
    assert "8 fits at rank 4" in repr(found[4])
    assert "Rank 4 stands out" in found._repr_html_()


def test_verbose_prints_a_line_for_each_rank(truth, capsys):
    quick(truth[0], "2-3", n_fits=2, verbose=1)
    assert capsys.readouterr().out.count("RankConsensus") == 2


def test_names_are_kept(truth):
    import pandas as pd

    frame = pd.DataFrame(truth[0], columns=[f"g{j}" for j in range(50)])
    at = quick(frame, n_fits=2)[RANK]
    assert at.factorization.axes.columns.values[7] == "g7"
