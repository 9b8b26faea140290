"""`elementwise_cross` of every kind of X and every rule, against a WH that is made as a whole."""

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.backends import reference
from nmfmerge.inputs import tensors
from nmfmerge.matrices import DenseData, SparseData
from nmfmerge.matrices.rules import Ratio, Residual

M, N, R, STARTS = 300, 140, 4, 3
RULES = [Ratio(1e-16), Residual()]


def torch_data(X, exponent):
    torch = pytest.importorskip("torch")
    from nmfmerge.matrices.torch import TorchData

    X = X * np.asarray(4.0**exponent, X.dtype)
    if sp.issparse(X):  # the exponent is found from the largest entry
        return tensors.device_matrix(tensors.on_device(X, "cpu"), tf32=False)
    return TorchData(torch.from_numpy(X), exponent)


def dask_data(X, exponent, by_columns=False):
    da = pytest.importorskip("dask.array")
    from nmfmerge.matrices.dask.opening import open_dask

    X = X * np.asarray(4.0**exponent, X.dtype)
    if sp.issparse(X):
        blocks = [X[i : i + 90].tocsr() for i in range(0, M, 90)]
        chunks = [da.from_array(block, chunks=block.shape, asarray=False) for block in blocks]
        return open_dask(da.concatenate(chunks))
    return open_dask(da.from_array(X, chunks=(M, 35) if by_columns else (90, N)))


def wrapped(kind):
    """Wrap X · 4ᵏ with the exponent k that takes it off."""
    return lambda X, exponent: kind(X * np.asarray(4.0**exponent, X.dtype), exponent)


KINDS = {
    "C": wrapped(DenseData),
    "F": wrapped(lambda X, k: DenseData(np.asfortranarray(X), k)),
    "csr": wrapped(lambda X, k: SparseData(sp.csr_array(X), k)),
    "csc": wrapped(lambda X, k: SparseData(sp.csc_array(X), k)),
    "torch": torch_data,
    "torch csr": torch_data,
    "dask rows": dask_data,
    "dask columns": lambda X, k: dask_data(X, k, by_columns=True),
    "dask csr": dask_data,
}
SPARSE = ("csr", "csc", "torch csr", "dask csr")
TENSORS = [
    pytest.param(kind, marks=pytest.mark.tensors if "torch" in kind else ()) for kind in KINDS
]


@pytest.fixture(params=TENSORS)
def kind(request):
    if "torch" in request.param:
        request.getfixturevalue("_one_torch_thread")
    return request.param


def case(dtype=np.float64):
    rng = np.random.default_rng(0)
    X = (rng.random((M, N)) * (rng.random((M, N)) > 0.6)).astype(dtype)
    X[0, 0], X[3], X[:, 5] = 0.75, 0, 0
    Wt, H = rng.random((STARTS, R, M)).astype(dtype), rng.random((STARTS, R, N)).astype(dtype)
    H[1, :, 7] = 0  # so that some y are zero, where x is not
    return X, Wt, H


def found(data, A):
    """A product as an array, wherever it is."""
    if hasattr(A, "shards"):
        length = A.shape[-1]
        unit = data.place(np.eye(length, dtype=A.dtype)[None], data.long)
        return np.stack([rows.products(unit[0]) for rows in A])
    return A.numpy() if hasattr(A, "numpy") else A


def in_kind(kind, X, exponent=0):
    if kind not in SPARSE:
        return KINDS[kind](X, exponent)
    stored = sp.csr_array(X)
    if kind.startswith(("torch", "dask")):
        return KINDS[kind](stored, exponent)
    return KINDS[kind](stored.toarray(), exponent)


def place(data, Wt, H):
    return data.place(Wt, "W"), data.place(H, "H")


@pytest.mark.parametrize("side", ["W", "H"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("exponent", [0, 3, 30])
def test_products_are_those_of_the_whole_matrix(kind, side, rule, dtype, exponent):
    """X comes in any scale, and the rule sees it in that of the fit."""
    X, Wt, H = case(dtype)
    data = in_kind(kind, X, exponent)
    assert data.unit == 2.0**exponent
    product, sums = data.elementwise_cross(side, *place(data, Wt, H), rule)
    if kind in SPARSE and isinstance(rule, Residual):
        X = np.where(X > 0, X, np.nan)  # what is not stored was not observed
    expected, expected_sums = reference.elementwise_cross(side, X, Wt, H, rule)
    rtol = 1e-10 if dtype == np.float64 else 2e-4
    size = np.median(np.abs(expected))
    np.testing.assert_allclose(found(data, product), expected, rtol=rtol, atol=rtol * size)
    np.testing.assert_allclose(np.asarray(sums), expected_sums, rtol=rtol)


@pytest.mark.parametrize("kind", ["C", "F", pytest.param("torch", marks=pytest.mark.tensors)])
@pytest.mark.parametrize("side", ["W", "H"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_missing_entries_count_for_nothing(kind, side, rule):
    X, Wt, H = case()
    missing = np.random.default_rng(1).random(X.shape) > 0.7
    data = in_kind(kind, np.where(missing, np.nan, X))
    product, sums = data.elementwise_cross(side, *place(data, Wt, H), rule)
    for i in range(STARTS):
        Y = Wt[i].T @ H[i]
        x, y = X[~missing], Y[~missing]
        E = np.zeros_like(X)
        E[~missing] = x - y if isinstance(rule, Residual) else x / np.maximum(y, 1e-16)
        expected = H[i] @ E.T if side == "W" else Wt[i] @ E
        np.testing.assert_allclose(found(data, product)[i], expected, rtol=1e-10, atol=1e-12)
        whole = np.sum(E**2) if isinstance(rule, Residual) else np.sum(
            x[x > 0] * np.log(x[x > 0] / np.maximum(y, 1e-16)[x > 0])
        )  # fmt: skip
        assert float(sums[i]) == pytest.approx(whole, rel=1e-10)


@pytest.mark.parametrize("kind", ["C", "F", "csr", "csc"])
@pytest.mark.parametrize("side", ["W", "H"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_bits_do_not_depend_on_threads(kind, side, rule, three_threads, monkeypatch):
    X, Wt, H = case()
    monkeypatch.setattr("nmfmerge.matrices.sparse._WORTH_SHARING", 0)
    results = []
    for n in (1, 2, 3):
        for module in ("backends.threads", "matrices.sparse"):
            monkeypatch.setattr(f"nmfmerge.{module}.available_threads", lambda n=n: n)
        results.append(in_kind(kind, X).elementwise_cross(side, Wt, H, rule))
    for product, sums in results[1:]:
        np.testing.assert_array_equal(product, results[0][0])
        np.testing.assert_array_equal(sums, results[0][1])


@pytest.mark.parametrize("kind", ["dask rows", "dask csr"])
def test_a_product_of_all_starts_is_one_pass(kind):
    X, Wt, H = case()
    data = in_kind(kind, X)
    factors = place(data, Wt, H)
    for side in ("W", "H"):
        before = data.passes
        data.elementwise_cross(side, *factors, Ratio(1e-16))
        assert data.passes == before + 1


def test_a_sparse_matrix_is_never_made_dense():
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(200_000)[:2000], rng.integers(0, 100_000, 2000)
    data = SparseData(sp.csr_array((rng.random(2000), (rows, columns)), shape=(200_000, 100_000)))
    Wt, H = np.ones((1, 2, 200_000)), np.ones((1, 2, 100_000))  # dense, X would be 160 GB
    product, sums = data.elementwise_cross("H", Wt, H, Residual())
    assert product[0, 0].sum() == pytest.approx(data.X.sum() - 2 * 2000)
    assert sums[0] == pytest.approx(np.sum((data.X.data - 2) ** 2))


def test_multiplicative_updates_by_the_ratio_lower_the_divergence():
    """Lee and Seung's update for Kullback–Leibler, from these products alone."""
    X, Wt, H = case()
    data = DenseData(X)

    def divergence(sums):
        return sums - X.sum() + np.einsum("srm,srn->s", Wt, H)

    values = []
    for _ in range(5):
        for side, F, other in (("W", Wt, H), ("H", H, Wt)):
            product, sums = data.elementwise_cross(side, Wt, H, Ratio(1e-16))
            values.append(divergence(sums))
            F *= product / other.sum(axis=2)[:, :, None]
    assert (np.diff(values, axis=0) < 0).all()
    y = np.maximum(np.einsum("rm,rn->mn", Wt[0], H[0]), 1e-16)
    x = np.where(X > 0, X, 1)
    exact = np.sum(X * np.log(x / y) - X + y)
    assert divergence(data.elementwise_cross("W", Wt, H, Ratio(1e-16))[1])[0] == pytest.approx(
        exact
    )
