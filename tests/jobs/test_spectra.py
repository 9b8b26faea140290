"""Programmes in all genes, beside SciPy's NNLS, dense least squares and Poisson regression."""

import numpy as np
import pytest
from scipy.optimize import nnls

from nmfmerge.jobs.programs.counts import counts_of
from nmfmerge.jobs.programs.genes import per_million
from nmfmerge.jobs.programs.spectra import parts, score_spectra, tpm_spectra, usages_of


@pytest.fixture(scope="module")
def tpm(made):
    return per_million(counts_of(made[0]).X)


@pytest.fixture(scope="module")
def usages(made):
    return made[1] * np.random.default_rng(1).uniform(0.5, 2.0, (len(made[1]), 1))


def test_parts_add_up_to_one(usages):
    usages = np.vstack([usages, np.zeros(usages.shape[1])])
    sums = parts(usages).sum(axis=1)
    np.testing.assert_allclose(sums[:-1], 1)
    assert sums[-1] == 0


def test_tpm_spectra_are_the_nonnegative_regression(tpm, usages):
    U, dense = parts(usages), np.asarray(tpm.todense())
    own = tpm_spectra(tpm, U, "frobenius")
    for gene in range(0, dense.shape[1], 37):
        np.testing.assert_allclose(own[:, gene], nnls(U, dense[:, gene])[0], atol=1e-6 * 1e4)


def test_tpm_spectra_are_the_poisson_regression(tpm, usages):
    U, dense = parts(usages), np.asarray(tpm.todense())
    own = tpm_spectra(tpm, U, "kullback-leibler")
    slope = U.sum(axis=0)[:, None] - U.T @ (dense / (U @ own))  # zero, or up at a zero entry
    assert (np.abs(slope * own).max(axis=0) < 1e-3 * dense.sum(axis=0)).all()
    assert slope.min() > -1e-2 * U.sum(axis=0).max()


def test_scores_are_the_least_squares_of_standardised_expression(tpm, usages):
    dense = np.asarray(tpm.todense())
    standard = (dense - dense.mean(axis=0)) / dense.std(axis=0)
    expected = np.linalg.lstsq(usages, standard, rcond=None)[0]
    np.testing.assert_allclose(score_spectra(tpm, usages), expected, rtol=1e-6, atol=1e-9)


def test_scores_are_high_for_the_genes_of_each_programme(tpm, usages):
    scores = score_spectra(tpm, usages)
    for k, score in enumerate(scores):
        assert set(np.argsort(-score)[:15]) <= set(range(25 * k, 25 * k + 25))


def test_usages_are_the_nonnegative_regression_on_genes_of_variance_one(tpm, made):
    spectra = made[2][:, :290] * 1e6
    dense = np.asarray(tpm.todense())
    scale = dense.std(axis=0, ddof=1)
    own = usages_of(tpm, spectra, "frobenius")
    for cell in range(0, len(dense), 41):
        expected = nnls((spectra / scale).T, dense[cell] / scale)[0]
        np.testing.assert_allclose(own[cell], expected, atol=1e-8)


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
def test_usages_are_found_again(tpm, made, loss):
    own = parts(usages_of(tpm, made[2][:, :290] * 1e6, loss))
    assert np.abs(own - made[1]).mean() < 0.02
