"""PyTorch tensors from users: recognized without importing PyTorch, checked, converted.

A tensor on the CPU is used through NumPy, in the same memory. One on another device stays there.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import ArgumentError, Given, Message
from nmfmerge.inputs import refusals
from nmfmerge.inputs.conversion import is_a
from nmfmerge.matrices import DataMatrix
from nmfmerge.matrices.scale import unit_exponent

if TYPE_CHECKING:
    import torch


def is_tensor(A: Any) -> bool:
    """True if A is a PyTorch tensor."""
    return is_a(A, "torch", "Tensor")


def is_host(device: Any) -> bool:
    """True if a device is the CPU."""
    return str(device).partition(":")[0] == "cpu"


def to_numpy(A: Any) -> Any:
    """A dense tensor as an array, in the same memory if possible; anything else unchanged."""
    if not is_tensor(A):
        return A
    return (A.float() if _is_half(A) else A).numpy(force=True)


def like(result: np.ndarray, given: Any) -> Any:
    """An array as a tensor on the device of ``given``, if that is a tensor; else unchanged."""
    if not is_tensor(given):
        return result
    import torch

    return torch.from_numpy(np.ascontiguousarray(result)).to(given.device)


def host_matrix(X: "torch.Tensor") -> Any:
    """A tensor on the CPU as an array, or as a SciPy matrix if it is sparse, in the same memory."""
    import torch

    X = X.detach()
    X = X.float() if _is_half(X) else X
    if X.layout == torch.strided:
        return X.numpy(force=True)
    if X.ndim != 2:
        raise refusals.not_a_matrix("X", X.ndim, "sparse tensor")
    shape = tuple(X.shape)
    if X.layout == torch.sparse_csc:
        parts = X.values(), X.row_indices(), X.ccol_indices()
        return sp.csc_array(tuple(part.numpy() for part in parts), shape=shape)
    if X.layout == torch.sparse_csr:
        parts = X.values(), X.col_indices(), X.crow_indices()
        return sp.csr_array(tuple(part.numpy() for part in parts), shape=shape)
    X = _as_coo(X)
    return sp.coo_array((X.values().numpy(), tuple(X.indices().numpy())), shape=shape)


def give_tensors(data: DataMatrix) -> DataMatrix:
    """Let a data matrix return its results as tensors on the CPU."""
    import torch

    data.to_user = lambda A: torch.from_numpy(np.array(A) if not A.flags.writeable else A)  # type: ignore[method-assign]
    return data


def device_matrix(X: "torch.Tensor", tf32: bool) -> DataMatrix:
    """A tensor on a device as a data matrix, after the checks that X gets in NumPy."""
    import torch

    from nmfmerge.matrices.torch import TorchData

    X = X.detach()
    if X.is_complex():
        raise refusals.not_numbers("X", X.dtype)
    if X.ndim != 2:
        raise refusals.not_a_matrix("X", X.ndim, "tensor")
    if min(X.shape) == 0:
        raise refusals.empty(tuple(X.shape))
    X = X.float() if _is_half(X) else X
    X = X if X.is_floating_point() else X.double()
    if X.layout != torch.strided:
        with _quiet():
            X = _as_coo(X).to_sparse_csr()
    values = X.values() if X.layout == torch.sparse_csr else X
    low, high = (float(values.min()), float(values.max())) if values.numel() else (0.0, 0.0)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise refusals.not_finite()
    if low < 0:
        least = f"the least is {low:.6g}"
        raise refusals.negative(least, "shift it, clip it or take magnitudes first")
    return TorchData(X, unit_exponent(high), tf32)


def weighted_matrix(data: Any, device: Any, tf32: bool) -> DataMatrix:
    """X with its weights, checked in memory, as a data matrix on a device."""
    from nmfmerge.matrices.weighted_torch import WeightedTensor

    place = on_device(np.empty(0), device).device
    return WeightedTensor(data, place, tf32)


def has_nan(X: "torch.Tensor") -> bool:
    """True if a value of X is NaN."""
    import torch

    values = X if X.layout == torch.strided else _as_coo(X).values()
    return values.is_floating_point() and bool(values.isnan().any())


def on_device(X: Any, device: Any) -> "torch.Tensor":
    """An array, sparse matrix or tensor as a tensor on a device.

    Raises
    ------
    ImportError
        If PyTorch is not installed.
    ValueError
        If there is no such device.
    """
    try:
        import torch
    except ImportError:
        raise ImportError(
            Message(
                "{given} needs PyTorch: install it with pip install 'nmfmerge[gpu]'",
                given=Given("device", device),
            )
        ) from None
    try:
        place = torch.device(device)
        with _quiet():
            return (X if is_tensor(X) else _as_tensor(X)).to(place)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ArgumentError(
            "device",
            "cannot be used ({reason})",
            value=device,
            fix="leave it out to fit on the CPU",
            reason=reason,
        ) from error


def _as_coo(X: "torch.Tensor") -> "torch.Tensor":
    """A sparse tensor as COO with no entry twice; of a hybrid one, the nonzeros of its blocks."""
    import torch

    X = X.to_sparse_coo().coalesce()
    if X.dense_dim() == 0:
        return X
    inner = X.values().to_sparse_coo()
    block, *within = inner.indices()
    indices = torch.cat([X.indices()[:, block], *(index[None] for index in within)])
    return torch.sparse_coo_tensor(indices, inner.values(), X.shape, is_coalesced=True)


def _as_tensor(X: Any) -> "torch.Tensor":
    """An array or sparse matrix as a tensor in the same memory, where that can be."""
    import torch

    if not sp.issparse(X):
        return torch.from_numpy(X if X.flags.forc else np.ascontiguousarray(X))
    X = X.tocsr()
    rows, columns, values = map(torch.from_numpy, (X.indptr, X.indices, X.data))
    return torch.sparse_csr_tensor(rows, columns, values, size=X.shape, check_invariants=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of PyTorch that X is sparse, or that its array is read-only."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")
        yield


def _is_half(X: "torch.Tensor") -> bool:
    return X.is_floating_point() and X.element_size() < 4
