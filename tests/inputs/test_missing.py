"""The forms of missing values and weights, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from nmfmerge import nmf
from nmfmerge.inputs.check import check_X

rng = np.random.default_rng(3)
X = rng.random((8, 6)) + 0.1
OBSERVED = rng.random(X.shape) < 0.7
OBSERVED[range(6), range(6)] = OBSERVED[6:, 0] = True
HOLES = np.where(OBSERVED, X, np.nan)


def parts(data):
    """The observed values, zero elsewhere, and the weights in the unit of the user."""
    known = data.X.toarray() if sp.issparse(data.X) else data.X
    weights = 1.0 if data.weights is None else data.weights.rows(slice(None))
    return known, weights * data.weight_unit


def in_pandas(values):
    table = pd.DataFrame(X).astype("Float64")
    return table.where(OBSERVED, pd.NA) if values is HOLES else table


FORMS = {
    "NaN": (HOLES, {}),
    "Fortran": (np.asfortranarray(HOLES), {}),
    "masked array": (np.ma.masked_array(X, ~OBSERVED), {}),
    "NA of pandas": (in_pandas(HOLES), {}),
    "NaN of pandas": (pd.DataFrame(HOLES), {}),
    "weights": (X, {"weights": OBSERVED.astype(float)}),
    "bool weights": (X, {"weights": OBSERVED}),
    "sparse weights": (X, {"weights": sp.csc_array(OBSERVED.astype(int))}),
    "weights as a list": (X, {"weights": OBSERVED.tolist()}),
    "sparse X": (sp.csr_array(np.where(OBSERVED, X, 0)), {"absent": "zeros"}),
    "sparse X in columns": (sp.csc_array(np.where(OBSERVED, X, 0)), {"absent": "zeros"}),
    "NaN stored": (sp.csr_array(HOLES), {}),
    "NaN stored, sparse weights": (sp.csr_array(X), {"weights": sp.csr_array(OBSERVED * 1.0)}),
    "sparse X, dense weights": (sp.csr_array(X), {"weights": OBSERVED * 1.0}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_missing_values_is_the_same_data(form):
    given, options = FORMS[form]
    data = check_X(given, **options)
    known, weights = parts(data)
    np.testing.assert_array_equal(known, np.where(OBSERVED, X, 0))
    np.testing.assert_array_equal(weights, OBSERVED)
    assert data.n_missing == np.count_nonzero(~OBSERVED)
    unit2 = data.unit**2
    assert data.norm2 == pytest.approx(np.nansum((HOLES / unit2) ** 2), rel=1e-12)
    assert data.mean == pytest.approx(np.nanmean(HOLES / unit2), rel=1e-12)


@pytest.mark.parametrize("absent", ["nan", "zeros"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.coo_array])
def test_weights_of_sparse_data_are_those_of_the_entries_that_count(kind, absent):
    M = np.where(OBSERVED, rng.random(X.shape) + 0.5, 0)
    stored = np.where(rng.random(X.shape) < 0.8, X, 0)
    np.fill_diagonal(stored, 1.0)
    stored[6:, 0] = 1.0
    known, weights = parts(check_X(sp.csr_array(stored), weights=kind(M), absent=absent))
    expected = M if absent == "nan" else np.where(stored > 0, M, 0)
    np.testing.assert_allclose(weights, expected, rtol=1e-15)
    np.testing.assert_array_equal(known, np.where(expected > 0, stored, 0))


def test_weights_of_rows_and_columns_are_those_of_their_entries():
    of_rows, of_columns = rng.random(8) + 0.1, rng.random(6) + 0.1
    for given, M in (
        (of_rows, of_rows[:, None]), (of_rows[:, None], of_rows[:, None]),
        (of_columns, of_columns[None]), (of_columns[None].tolist(), of_columns[None]),
    ):  # fmt: skip
        _, weights = parts(check_X(X, weights=given))
        np.testing.assert_allclose(weights, np.broadcast_to(M, X.shape), rtol=1e-15)


@pytest.mark.parametrize("layout", ["strided", "sparse_coo", "sparse_csr"])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_weights_may_be_a_tensor(layout):
    torch = pytest.importorskip("torch")
    M = np.where(OBSERVED, rng.random(X.shape) + 0.5, 0)
    given = torch.from_numpy(M)
    given = given if layout == "strided" else getattr(given, f"to_{layout}".replace("_coo", ""))()
    for found, expected in zip(
        parts(check_X(X, weights=given)), parts(check_X(X, weights=M)), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_equal_weights_are_none():
    data = check_X(X, weights=np.full(X.shape, 3.0))
    assert data.weights is None
    assert data.weight_unit == 3


def test_data_without_missing_values_are_not_copied():
    assert check_X(X).X is X
    assert check_X(X).weights is None


def with_entry(A, value, i=2, j=2):
    A = np.array(A, dtype=float)
    A[i, j] = value
    return A


def unobserved(rows=(), columns=()):
    A = HOLES.copy()
    A[list(rows)] = np.nan
    A[:, list(columns)] = np.nan
    return A


BAD = [
    (X, {"weights": np.ones((3, 3))}, r"weights has shape \(3, 3\) and X has shape \(8, 6\)"),
    (X, {"weights": np.ones(5)}, r"weights has shape \(5,\).*one for each row or column"),
    (X, {"weights": 2.0}, r"weights has shape \(\) and X has shape \(8, 6\)"),
    (X[:6], {"weights": np.ones(6)}, r"weights has 6 numbers.*use weights.reshape\(-1, 1\)"),
    (X, {"weights": with_entry(OBSERVED, -1)}, "weights has negative values"),
    (X, {"weights": with_entry(OBSERVED, np.inf)}, "weights contains NaN or infinity"),
    (X, {"weights": with_entry(OBSERVED, np.nan)}, "weights contains NaN or infinity"),
    (X, {"weights": np.zeros(X.shape)}, "weights is zero everywhere"),
    (X, {"weights": sp.csr_array(X.shape)}, "weights is zero everywhere"),
    (X, {"missing": "zero"}, "missing='zero' is not known; expected one of 'nan', 'zeros'"),
    (X, {"missing": "zeros"}, "missing='zeros' is for a sparse X.*write NaN"),
    (unobserved(rows=[3]), {}, "X has no observed entry in row 3; .*drop those rows"),
    (unobserved(columns=[1, 4]), {}, "X has no observed entry in column 1, 4"),
    (unobserved(rows=range(5)), {}, "in row 0, 1, 2 and 2 more"),
    (np.full(X.shape, np.nan), {}, "X has no observed entry in row"),
    (X, {"weights": np.arange(8.0)}, "X has no observed entry in row 0"),
    (sp.csr_array(np.diag(np.arange(4.0))), {"missing": "zeros"}, "no observed entry in row 0"),
    (with_entry(HOLES, np.inf), {}, r"X contains infinity \(X\[2, 2\] is inf\)"),
    (with_entry(HOLES, -1), {}, r"Negative values in data passed to NMF \(X\[2, 2\] is -1\)"),
    (sp.csr_array(with_entry(HOLES, -1)), {}, r"X\[2, 2\] is -1"),
    (sp.csr_array(with_entry(HOLES, np.inf)), {"missing": "zeros"}, r"X\[2, 2\] is inf"),
    (HOLES, {"solver": "hals"}, "solver='hals' does not minimise .* where X has missing values"),
]


@pytest.mark.parametrize(("given", "options", "message"), BAD)
def test_what_cannot_be_meant_is_refused(given, options, message):
    with pytest.raises(ValueError, match=message):
        nmf(given, 2, **options)


def test_entries_without_weight_may_be_anything():
    for value in (-1.0, np.inf, -np.inf, np.nan, 1e308):
        given = np.where(OBSERVED, X, value)
        for weights in (OBSERVED, sp.csr_array(OBSERVED * 2.0)):
            known, _ = parts(check_X(given, weights=weights))
            np.testing.assert_array_equal(known, np.where(OBSERVED, X, 0))


@pytest.mark.parametrize("weights", [np.ones((4, 3)), sp.csr_array(np.eye(4, 3))])
def test_a_sparse_matrix_that_stores_nothing_has_no_observation(weights):
    nothing = sp.csr_array((4, 3))
    with pytest.raises(ValueError, match="no observed entry in row 0"):
        nmf(nothing, 2, weights=weights, missing="zeros")
