import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from nmfmerge import Interrupted, NMFMerge, metrics, nmf_merge


@pytest.mark.filterwarnings("ignore:n_extra=1 was reduced")
@parametrize_with_checks([NMFMerge(), NMFMerge(n_components=2, solver="gcd", init="random")])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_fit_transform_and_transform_agree(low_rank):
    for X in (low_rank, sp.csr_array(low_rank), low_rank.astype(np.float32)):
        model = NMFMerge(5)
        W = model.fit_transform(X)
        np.testing.assert_array_equal(W, model.transform(X))
        np.testing.assert_array_equal(W, NMFMerge(5).fit(X).transform(X))


def test_transform_solves_the_least_squares_problem(low_rank, rng):
    model = NMFMerge(5).fit(low_rank)
    X = rng.random((20, 45))
    W = model.transform(X)
    gradient = (W @ model.components_ - X) @ model.components_.T
    scale = np.abs(X @ model.components_.T).max()
    assert W.min() >= 0
    assert gradient.min() > -1e-10 * scale
    assert np.abs(gradient[W > 0]).max() < 1e-10 * scale


def test_attributes_tell_the_run(low_rank):
    model = NMFMerge(5, n_extra=2, init="random", random_state=3)
    W = model.fit_transform(low_rank)
    expected = nmf_merge(low_rank, 5, n_extra=2, init="random", random_state=3)
    np.testing.assert_array_equal(model.components_, expected.H)
    assert model.n_components_ == 5
    assert model.n_iter_ == expected.n_iter
    assert [stage.name for stage in model.stages_] == [stage.name for stage in expected.stages]
    assert model.stages_[2].n_components == 7
    np.testing.assert_array_equal(model.merges_.pairs, expected.merges.pairs)
    assert [start.seed for start in model.starts_] == [start.seed for start in expected.starts]
    assert len(model.starts_) == 4
    assert NMFMerge(5, n_init=1).fit(low_rank).starts_ == ()
    error = np.linalg.norm(low_rank - W @ model.components_)
    assert model.reconstruction_err_ == pytest.approx(error)
    assert error**2 <= 2 * expected.objective * (1 + 1e-12)


def test_inverse_transform_is_the_product(low_rank):
    model = NMFMerge(5)
    W = model.fit_transform(low_rank)
    np.testing.assert_allclose(model.inverse_transform(W), W @ model.components_)
    sparse = sp.csr_array(W)
    np.testing.assert_allclose(model.inverse_transform(sparse), W @ model.components_)
    with pytest.raises(ValueError, match="X has 4 columns; expected the weights of 5"):
        model.inverse_transform(W[:, :4])


def test_score_is_the_explained_share(low_rank):
    model = NMFMerge(5).fit(low_rank)
    W = model.transform(low_rank[:30])
    expected = 1 - metrics.fitting_error(low_rank[:30], W, model.components_) / 100
    assert model.score(low_rank[:30]) == pytest.approx(expected)


def test_float32_stays_float32(low_rank):
    model = NMFMerge(4)
    W = model.fit_transform(low_rank.astype(np.float32))
    assert W.dtype == model.components_.dtype == np.float32


def test_clone_and_pickle(low_rank):
    model = NMFMerge(4, init=(np.ones((60, 4)), np.ones((4, 45))), tol=1e-3).fit(low_rank)
    fresh = clone(model)
    assert not hasattr(fresh, "components_")
    assert fresh.tol == 1e-3
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(low_rank), model.transform(low_rank))
    assert again.stages_[1].name == "initial"


def test_pipeline_and_grid_search(low_rank, rng):
    y = (low_rank[:, 0] > np.median(low_rank[:, 0])).astype(int)
    pipeline = make_pipeline(MinMaxScaler(clip=True), NMFMerge(tol=1e-2), LogisticRegression())
    grid = {"nmfmerge__n_components": [2, 4], "nmfmerge__n_extra": [0, 1]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(low_rank, y)
    assert search.best_score_ > 0.7
    alone = GridSearchCV(NMFMerge(tol=1e-2), {"n_components": [1, 5]}, cv=3).fit(low_rank)
    assert alone.best_params_ == {"n_components": 5}


def test_names_of_features(low_rank):
    frame = pd.DataFrame(low_rank, columns=[f"gene{i}" for i in range(45)])
    model = NMFMerge(3).set_output(transform="pandas").fit(frame)
    assert model.feature_names_in_[7] == "gene7"
    names = ["nmfmerge0", "nmfmerge1", "nmfmerge2"]
    assert model.get_feature_names_out().tolist() == names
    assert model.transform(frame).columns.tolist() == names


def test_an_interrupted_fit_leaves_a_usable_model(low_rank):
    def callback(progress):
        if progress.stage == "final":
            raise KeyboardInterrupt

    model = NMFMerge(4, callback=callback)
    with pytest.raises(Interrupted):
        model.fit(low_rank)
    assert model.transform(low_rank).shape == (60, 4)
