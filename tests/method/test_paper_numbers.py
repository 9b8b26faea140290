"""Numbers that a correct implementation reproduces: the authors' own, and the paper's Table II."""

import numpy as np
import pytest

from nmfmerge import datasets, nmf, nmf_merge


def relative_objective(result, X):
    return result.objective / np.sum(X**2)


def test_8x8_example_hals():
    X = datasets.paper_example().X
    result = nmf(X, 4, solver="hals")
    assert relative_objective(result, X) == pytest.approx(0.00019519131697246967, rel=1e-6)
    assert result.n_iter == 575


def test_8x8_example_nmf_merge():
    X = datasets.paper_example().X
    result = nmf_merge(X, 4, solver="hals", n_init=1)
    assert relative_objective(result, X) == pytest.approx(0.00010318497977267333, rel=1e-6)
    assert [stage.n_iter for stage in result.stages] == [0, 11, 0, 13, 0, 2321]


def test_exactly_rank_two_matrix_is_fitted_exactly():
    example = datasets.paper_example()
    X = example.W[:, 2:] @ example.H[2:]
    result = nmf_merge(X, 2, n_extra=1, tol=1e-12, tol_intermediate=1e-12, n_init=1)
    assert 2 * result.objective <= 1e-12
    assert result.converged


def test_plateaus_of_the_appendix():
    """Two long plateaus, about 20–250 and 350–5200 iterations, with quick falls after them."""
    errors = []
    X = datasets.paper_example().X
    nmf(X, 4, solver="hals", tol=1e-8, callback=lambda p: errors.append(p.fitting_error))
    assert errors[0] > 10 * errors[20]
    assert errors[20] < 1.7 * errors[200]
    assert errors[350] < 0.25 * errors[200]
    assert errors[350] < 2.2 * errors[5000]
    assert errors[7000] < 1e-6 * errors[5000]


DETERMINISTIC = ["nndsvd", "nndsvda", "nndsvdar"]
EXPECTED = {"mhll": (3, 1, 3.08), "pf1": (13, 3, 2.85)}


@pytest.mark.parametrize("init", DETERMINISTIC)
@pytest.mark.parametrize("solver", ["accelerated", "hals", "gcd", "alspgrad"])
@pytest.mark.parametrize("name", EXPECTED)
def test_table_two(real, name, solver, init):
    X = real(name)
    r, k, expected = EXPECTED[name]
    standard = nmf(X, r, solver=solver, init=init)
    options = {"solver": solver, "init": init}
    merged = nmf_merge(X, r, n_extra=k, tol_intermediate=1e-4, n_init=1, **options)
    assert round(standard.fitting_error, 2) == expected
    assert round(merged.fitting_error, 2) == expected


@pytest.mark.parametrize(
    ("name", "init", "standard", "merged"),
    [
        ("mhll", "nndsvd", 3.24, 3.20),
        ("mhll", "nndsvda", 3.09, 3.09),
        ("mhll", "nndsvdar", 3.09, 3.09),
        ("pf1", "nndsvd", 4.5, 3.89),
        ("pf1", "nndsvda", 2.85, 2.85),
        ("pf1", "nndsvdar", 2.85, 2.85),
    ],
)
def test_table_two_multiplicative_updates(real, name, init, standard, merged):
    X = real(name)
    r, k, _ = EXPECTED[name]
    options = {"solver": "mu", "init": init}
    assert nmf(X, r, **options).fitting_error == pytest.approx(standard, abs=0.05)
    found = nmf_merge(X, r, n_extra=k, tol_intermediate=1e-4, n_init=1, **options)
    assert found.fitting_error == pytest.approx(merged, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "r", "k", "error"), [("cbcl", 49, 10, 0.65), ("orl", 25, 5, 3.02)]
)
def test_table_two_faces(real, name, r, k, error):
    X = real(name)
    assert round(nmf(X, r, solver="hals").fitting_error, 2) == error
    assert round(nmf_merge(X, r, n_extra=k, n_init=1).fitting_error, 2) == error


@pytest.mark.slow
def test_table_two_faces_by_multiplicative_updates(real):
    """Poor values, by zeros that stay zero."""
    X = real("cbcl")
    assert nmf(X, 49, solver="mu").fitting_error == pytest.approx(1.66, abs=0.05)
    merged = nmf_merge(X, 49, n_extra=10, solver="mu", tol_intermediate=1e-4, n_init=1)
    assert merged.fitting_error == pytest.approx(1.46, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["hals", "accelerated"])
def test_nmf_merge_is_never_worse_on_lcms_and_nearly_always_the_same(real, solver):
    """The reason for this package: 20 random starts on a real LC-MS run, r = 17."""
    X = real("lcms_wt15")
    standard, merged = [], []
    for seed in range(20):
        start = {"init": "random", "n_init": 1, "random_state": seed}
        standard.append(nmf(X, 17, solver="hals", **start).fitting_error)
        merged.append(nmf_merge(X, 17, solver=solver, **start).fitting_error)
    assert np.all(np.array(merged) <= np.array(standard) + 1e-3)
    assert np.mean(merged) == pytest.approx(2.189, abs=1e-3)
    assert max(merged) < 2.2
    assert np.count_nonzero(np.array(standard) > 2.3) >= 2  # poor optima, of which 2.19 is free
