"""PyTorch tensors as data: what goes in, what comes back, and what is refused.

There is no GPU here. The fixture `device` lets the CPU count as another device, so that tensors,
and arrays with ``device="cpu"``, go the way that they go on a GPU.
"""

import builtins
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import (
    Editor,
    merge_components,
    metrics,
    nmf,
    nmf_merge,
    plot,
    rank_path,
    recover_components,
    transform,
)
from nmfmerge.datasets import lcms_like
from nmfmerge.inputs import tensors
from nmfmerge.inputs.check import check_X
from nmfmerge.matrices import DenseData, SparseData
from nmfmerge.storage import records

torch = pytest.importorskip("torch")

from nmfmerge.matrices.torch import TorchData  # noqa: E402

pytestmark = [
    pytest.mark.tensors,
    pytest.mark.usefixtures("_one_torch_thread"),
    pytest.mark.filterwarnings(
        f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}"
    ),
]


@pytest.fixture
def device(monkeypatch):
    monkeypatch.setattr(tensors, "is_host", lambda device: False)
    return "cpu"


def sparse(X):
    return X * (np.median(X) < X)


def assert_same(result, expected):
    """The very same numbers, in tensors."""
    for ours, theirs in ((result.W, expected.W), (result.H, expected.H)):
        assert isinstance(ours, torch.Tensor)
        assert not ours.requires_grad
        np.testing.assert_array_equal(ours.numpy(), theirs)
        assert ours.numpy().dtype == theirs.dtype
    assert result.fitting_error == expected.fitting_error
    assert result.n_iter == expected.n_iter


KINDS = {
    "float64": lambda T: T,
    "float32": lambda T: T.float(),
    "float16": lambda T: T.half(),
    "bfloat16": lambda T: T.bfloat16(),
    "int64": lambda T: (9 * T).long(),
    "uint8": lambda T: (9 * T).byte(),
    "bool": lambda T: T.median() < T,
    "with gradient": lambda T: T.clone().requires_grad_(),
    "parameter": torch.nn.Parameter,
    "every other row": lambda T: T[::2],
    "every other column": lambda T: T[:, ::2],
    "transposed": lambda T: T.T,
    "negated view": lambda T: torch.complex(T, -T).conj().imag,
    "one row repeated": lambda T: T[:1].expand(20, -1) + 0 * T[:20],
}


def as_array(T):
    """What a user would have to write without this package."""
    T = T.detach().resolve_neg()
    return (T.float() if T.dtype in (torch.float16, torch.bfloat16) else T).numpy().copy(order="K")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit", [nmf, nmf_merge])
def test_a_tensor_gives_what_its_array_gives(fit, kind, low_rank):
    T = KINDS[kind](torch.from_numpy(low_rank))
    before = T.detach().clone()
    assert_same(fit(T, 3, max_iter=50), fit(as_array(T), 3, max_iter=50))
    assert torch.equal(T, before)


def one_block(T):
    """A sparse tensor of which no dimension is sparse."""
    return torch.sparse_coo_tensor(torch.zeros((0, 1), dtype=torch.int64), T[None], T.shape)


LAYOUTS = {
    "coo": (lambda T: T.to_sparse_coo(), sp.csr_array),
    "csr": (lambda T: T.to_sparse_csr(), sp.csr_array),
    "csc": (lambda T: T.to_sparse_csc(), sp.csc_array),
    "bsr": (lambda T: T.to_sparse_bsr((3, 3)), sp.csr_array),
    "hybrid, rows are dense": (lambda T: T.to_sparse(1), sp.csr_array),
    "hybrid, all is dense": (one_block, sp.csr_array),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # made by the test itself
def test_a_sparse_tensor_gives_what_its_matrix_gives(layout, dtype, low_rank):
    make, matrix = LAYOUTS[layout]
    T = torch.from_numpy(sparse(low_rank)).to(dtype)
    expected = matrix(as_array(T))
    expected.eliminate_zeros()
    if layout == "bsr":  # which stores zeros too
        result = nmf_merge(make(T), 3, max_iter=50)
        assert result.fitting_error == pytest.approx(
            nmf_merge(expected, 3, max_iter=50).fitting_error, rel=1e-5
        )
        return
    assert_same(nmf_merge(make(T), 3, max_iter=50), nmf_merge(expected, 3, max_iter=50))


def test_entries_of_a_sparse_tensor_that_come_twice_are_added_up():
    at = torch.tensor([[0, 0, 1, 2, 2], [0, 0, 1, 2, 0]])
    values = torch.tensor([1.0, 2.0, 1.0, 1.0, 4.0])
    T = torch.sparse_coo_tensor(at, values, (3, 3), check_invariants=True)
    data = check_X(T)
    np.testing.assert_array_equal(data.X.toarray(), T.to_dense())


def test_blocks_of_a_hybrid_tensor_that_come_twice_are_added_up(device):
    rows = torch.tensor([[2, 0, 2]])
    values = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 0.0, 0.0]])
    T = torch.sparse_coo_tensor(rows, values, (4, 3), check_invariants=True)
    np.testing.assert_array_equal(tensors.host_matrix(T).toarray(), T.to_dense())
    np.testing.assert_array_equal(check_X(T).X.to_dense(), T.to_dense())


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
def test_tensors_on_the_cpu_are_not_copied(low_rank):
    T = torch.from_numpy(low_rank)
    data = check_X(T)
    assert isinstance(data, DenseData)
    assert np.shares_memory(data.X, low_rank)
    for S in (T.to_sparse_csr(), T.to_sparse_csc()):
        data = check_X(S)
        assert isinstance(data, SparseData)
        assert np.shares_memory(data.X.data, S.values().numpy())


def test_sparse_tensors_raise_no_warning_of_pytorch():
    """It warns once in a process, where CSR is made first."""
    code = (
        "import warnings, numpy as np, torch, scipy.sparse as sp\n"
        "warnings.simplefilter('error')\n"
        "from nmfmerge import nmf\nfrom nmfmerge.inputs import tensors\n"
        "T = torch.eye(5)\n"
        "nmf(T.to_sparse_coo(), 2)\n"
        "tensors.device_matrix(T.to_sparse_coo(), False)\n"
        "X = np.eye(5)\n"
        "X.flags.writeable = False\n"
        "tensors.on_device(X, 'cpu')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_starts_given_as_tensors(low_rank):
    rng = np.random.default_rng(0)
    W0, H0 = rng.random((60, 4)), rng.random((4, 45))
    given = (torch.from_numpy(W0).requires_grad_(), torch.from_numpy(H0))
    T = torch.from_numpy(low_rank)
    for options in ({}, {"hold": [0]}, {"hold": {"H": [0, 1]}}):
        expected = nmf_merge(low_rank, 4, init=(W0, H0), max_iter=50, **options)
        assert_same(nmf_merge(T, 4, init=given, max_iter=50, **options), expected)
        expected = nmf_merge(low_rank, 4, init=[(W0, H0), "nndsvd"], max_iter=50, **options)
        assert_same(nmf_merge(T, 4, init=[given, "nndsvd"], max_iter=50, **options), expected)


def test_everything_in_a_result_is_a_tensor(low_rank):
    result = nmf_merge(torch.from_numpy(low_rank), 3, n_init=3, return_all=True)
    expected = nmf_merge(low_rank, 3, n_init=3, return_all=True)
    for ours, theirs in zip(result.solutions, expected.solutions, strict=True):
        assert_same(ours, theirs)
    for side in ("W", "H"):
        spread = getattr(result.spread, side)
        assert isinstance(spread, torch.Tensor)
        np.testing.assert_array_equal(spread, getattr(expected.spread, side))


def test_a_callback_sees_tensors(low_rank):
    seen = []

    def look(progress):
        seen.append((progress.W, progress.H))
        return progress.iteration == 2

    nmf(torch.from_numpy(low_rank), 3, callback=look)
    assert all(isinstance(F, torch.Tensor) for pair in seen for F in pair)


@pytest.mark.parametrize("on_device", [False, True])
def test_single_steps_and_metrics(low_rank, on_device, request):
    if on_device:
        request.getfixturevalue("device")
    X = 1e6 * low_rank
    fit = nmf(np.array(X), 3)
    T, W, H = (torch.from_numpy(np.array(A)) for A in (X, fit.W, fit.H))

    def compare(ours, theirs):
        for mine, other in zip(ours, theirs, strict=True):
            assert isinstance(mine, torch.Tensor)
            np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-8 * np.abs(other).max())

    compare([transform(T, H)], [transform(X, fit.H)])
    *ours, values = recover_components(T, W, H, 2)
    *theirs, expected = recover_components(X, fit.W, fit.H, 2)
    compare(ours, theirs)
    np.testing.assert_allclose(values, expected, rtol=1e-8)
    ours, theirs = merge_components(W, H, 2), merge_components(fit.W, fit.H, 2)
    compare(ours[:2], theirs[:2])
    for metric in (metrics.fitting_error, metrics.kkt_residual):
        assert metric(T, W, H) == pytest.approx(metric(X, fit.W, fit.H), rel=1e-7)
    W2 = torch.from_numpy(nmf(X, 3, init="random").W.copy())
    for metric in (metrics.subspace_mismatch, metrics.permutation_mismatch):
        assert metric(W, W2) == metric(fit.W, W2.numpy())
    np.testing.assert_array_equal(
        metrics.match_components(W, W2), metrics.match_components(fit.W, W2.numpy())
    )
    np.testing.assert_array_equal(metrics.shares(W, H), metrics.shares(fit.W, fit.H))
    np.testing.assert_array_equal(
        metrics.next_merges(W, H).pairs, metrics.next_merges(fit.W, fit.H).pairs
    )


# Another device


@pytest.mark.parametrize("make", [np.array, np.asfortranarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_arrays_sent_to_a_device_come_back_as_arrays(make, scale, low_rank, device):
    X = make(sparse(low_rank) * scale)
    expected = nmf_merge(X, 3, n_init=2)
    result = nmf_merge(X, 3, n_init=2, device=device)
    for ours, theirs in ((result.W, expected.W), (result.H, expected.H)):
        assert isinstance(ours, np.ndarray)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7 * theirs.max())
    assert result.fitting_error == pytest.approx(expected.fitting_error, rel=1e-8)
    assert result.objective == pytest.approx(expected.objective, rel=1e-8)
    assert isinstance(result.spread.W, np.ndarray)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_counts_sent_to_a_device_have_the_fit_of_arrays(make, device):
    X = make(np.random.default_rng(0).poisson(1.0, (20, 30)))
    options = {"n_init": 2, "beta_loss": "kullback-leibler"}
    ours, theirs = nmf_merge(X, 3, device=device, **options), nmf_merge(X, 3, **options)
    assert type(ours.W) is np.ndarray
    assert ours.fitting_error == pytest.approx(theirs.fitting_error, rel=1e-8)


def test_hold_on_a_device_keeps_the_bits(low_rank, device):
    rng = np.random.default_rng(0)
    W0, H0 = rng.random((60, 4)), rng.random((4, 45))
    X = 1e3 * low_rank
    for hold in ([0], {"H": [0, 1]}, {"W": [0], "H": [0, 1, 2, 3]}):
        expected = nmf_merge(X, 4, init=(W0, H0), hold=hold, n_init=2)
        result = nmf_merge(X, 4, init=(W0, H0), hold=hold, n_init=2, device=device)
        in_kind = nmf_merge(torch.from_numpy(X), 4, init=(W0, H0), hold=hold, n_init=2)
        for one in (result, in_kind):
            assert one.fitting_error == pytest.approx(expected.fitting_error, rel=1e-8)
            assert one.n_iter == expected.n_iter
        held_H = hold if isinstance(hold, list) else hold.get("H", [])
        np.testing.assert_array_equal(result.H[held_H], H0[held_H])
        np.testing.assert_array_equal(in_kind.H[held_H], H0[held_H])


def test_a_callback_on_a_device_sees_factors_of_X(low_rank, device):
    X, errors = 1e6 * low_rank, []

    def compare(progress):
        assert isinstance(progress.W, np.ndarray)
        residual = X - progress.W @ progress.H
        errors.append((progress.fitting_error, 100 * np.sum(residual**2) / np.sum(X**2)))

    nmf(X, 3, callback=compare, tol=1e-2, device=device)
    np.testing.assert_allclose(*np.transpose(errors), rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda T: T[0], ValueError, r"X has 1 dimension\(s\); expected a 2-D"),
        (lambda T: T[:0], ValueError, "X is empty"),
        (lambda T: torch.complex(T, T), TypeError, "X is complex"),
        (lambda T: torch.complex(T, T).conj(), TypeError, "X is complex"),
        (lambda T: -T, ValueError, "Negative values in data"),
        (lambda T: T / 0, ValueError, r"X contains (NaN or )?infinity"),
        (lambda T: T[None].to_sparse_coo(), ValueError, r"X has 3 dimension\(s\)"),
        (lambda T: (-T).to_sparse_coo(), ValueError, "Negative values in data"),
    ],
)
@pytest.mark.parametrize("on_device", [False, True])
def test_data_that_cannot_be_factorized_are_refused(
    change, error, message, on_device, low_rank, request
):
    if on_device:
        request.getfixturevalue("device")
    T = change(torch.from_numpy(low_rank))
    with pytest.raises(error, match=message):
        nmf(T, 3)


def test_missing_values_and_weights_are_taken_wherever_a_tensor_is(low_rank, request):
    T = torch.from_numpy(low_rank)
    holes = torch.where(T[3, 5] != T, T, torch.nan)
    W = nmf(holes, 3).W
    np.testing.assert_array_equal(W, nmf(holes.numpy(), 3).W)
    request.getfixturevalue("device")
    for options in ({}, {"weights": np.isfinite(holes.numpy())}):
        np.testing.assert_allclose(nmf(holes, 3, **options).W, W, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match=r"'hals'.*where X has missing values"):
        nmf(holes, 3, solver="hals")


def test_a_device_that_is_not_there(low_rank):
    for X in (low_rank, sp.csr_array(low_rank), torch.from_numpy(low_rank)):
        for device in ("gpu", "cuda:99", 3.5, torch.device("cuda", 99)):
            with pytest.raises(ValueError, match=r"device=.* cannot be used .*leave it out"):
                nmf(X, 3, device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA")
def test_cuda_without_cuda(low_rank):
    with pytest.raises(ValueError, match=r"^device='cuda' cannot be used \(.+\): leave it out to"):
        nmf_merge(low_rank, 3, device="cuda")


def test_the_cpu_can_be_named(low_rank):
    expected = nmf(low_rank, 3)
    for device in ("cpu", "cpu:0", torch.device("cpu")):
        np.testing.assert_array_equal(nmf(low_rank, 3, device=device).W, expected.W)
        assert_same(nmf(torch.from_numpy(low_rank), 3, device=device), expected)


def test_without_pytorch_a_device_names_what_to_install(low_rank, monkeypatch):
    real = builtins.__import__

    def no_torch(name, *rest):
        if name.partition(".")[0] == "torch":
            raise ImportError("No module named 'torch'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_torch)
    with pytest.raises(ImportError, match=r"^device='cuda' needs PyTorch: .*nmfmerge\[gpu\]"):
        nmf(low_rank, 3, device="cuda")


def test_arrays_are_fitted_without_importing_pytorch():
    code = (
        "import sys, numpy as np, scipy.sparse as sp, nmfmerge\n"
        "X = np.random.default_rng(0).random((9, 8))\n"
        "nmfmerge.nmf_merge(X, 2, n_init=2)\n"
        "nmfmerge.nmf(sp.csr_array(X), 2, device='cpu')\n"
        "nmfmerge.transform(X, X[:2])\n"
        "print(sorted({'torch', 'triton'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_tf32_is_only_for_products_on_a_gpu(low_rank, device):
    """Elsewhere it is allowed and changes nothing, and the switch of PyTorch stays as it was."""
    before = torch.backends.cuda.matmul.allow_tf32
    X = low_rank.astype("f4")
    exact, fast = (nmf(X, 3, device=device, tf32=tf32) for tf32 in (False, True))
    np.testing.assert_array_equal(exact.W, fast.W)
    assert torch.backends.cuda.matmul.allow_tf32 == before


def test_a_matrix_on_a_device_is_the_one_in_numpy(low_rank, device):
    for scale in (1.0, 300.0, 1e-200, 1e250):
        for X in (low_rank * scale, sp.csr_array(sparse(low_rank) * scale)):
            ours, theirs = check_X(X, device), check_X(X)
            assert isinstance(ours, TorchData)
            assert ours.digest() == theirs.digest()
            assert ours.unit == theirs.unit
            assert ours.norm2 == pytest.approx(theirs.norm2, rel=1e-13)
            assert ours.mean == pytest.approx(theirs.mean, rel=1e-13)
            np.testing.assert_allclose(ours.svd(3).s, theirs.svd(3).s, rtol=1e-12)


def test_rank_path_and_editor_take_tensors_of_the_cpu_and_refuse_others(rng):
    X = rng.random((20, 15))
    path = rank_path(torch.from_numpy(X), 3)
    np.testing.assert_array_equal(path[3].W, rank_path(X, 3)[3].W)
    editor = Editor(torch.from_numpy(X), path[3])
    assert isinstance(editor.merge(0, 1).W, np.ndarray)
    elsewhere = torch.empty((20, 15), device="meta")
    for refuses in (
        lambda: rank_path(elsewhere, 3),
        lambda: Editor(elsewhere, path[3]),
    ):
        with pytest.raises(TypeError, match=r"tensor on meta; .* on the CPU: pass X\.cpu\(\)"):
            refuses()


def test_figures_report_and_records_take_results_that_are_tensors(rng):
    data = lcms_like(20, 30, 4)
    result = nmf_merge(torch.from_numpy(data.X), 4, return_all=True)
    assert isinstance(result.numpy().solutions[1].W, np.ndarray)
    for figure in (
        plot.components(result), plot.merges(result), plot.starts(result),
        plot.reconstruction(result, data), plot.comparison(result, result.solutions[1]),
    ):  # fmt: skip
        assert figure.axes
    again = records.unpack_result(*records.pack_result(result))
    np.testing.assert_array_equal(again.W, result.W.numpy())
