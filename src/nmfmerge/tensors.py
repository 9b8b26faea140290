"""PyTorch tensors that users give: told apart without importing PyTorch, checked, converted.

A tensor on the CPU is used through NumPy, in the same memory. One on another device stays there.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.data import DataMatrix
from nmfmerge.data.scale import unit_exponent

if TYPE_CHECKING:
    import torch


def is_tensor(A: Any) -> bool:
    """Whether A is a PyTorch tensor."""
    return any(
        base.__module__.partition(".")[0] == "torch" and base.__name__ == "Tensor"
        for base in type(A).__mro__
    )


def to_numpy(A: Any) -> Any:
    """A dense tensor as an array, in the same memory where that can be; others as they are."""
    if not is_tensor(A):
        return A
    A = A.detach()
    if _is_half(A):
        A = A.float()
    return A.cpu().numpy()


def like(result: np.ndarray, given: Any) -> Any:
    """An array as a tensor where another is, if that is one; else as it is."""
    if not is_tensor(given):
        return result
    import torch

    return torch.from_numpy(np.ascontiguousarray(result)).to(given.device)


def host_matrix(X: "torch.Tensor") -> Any:
    """A tensor on the CPU as an array, or as a SciPy matrix if it is sparse."""
    import torch

    X = X.detach()
    X = X.float() if _is_half(X) else X
    if X.layout == torch.strided:
        return X.numpy()
    X = X.to_sparse_csr()
    parts = (X.values().numpy(), X.col_indices().numpy(), X.crow_indices().numpy())
    return sp.csr_array(parts, shape=tuple(X.shape))


def give_tensors(data: DataMatrix) -> DataMatrix:
    """Let a data matrix return its results as tensors on the CPU."""
    import torch

    data.give = lambda A: torch.from_numpy(np.array(A) if not A.flags.writeable else A)  # type: ignore[method-assign]
    return data


def device_matrix(X: "torch.Tensor", tf32: bool) -> DataMatrix:
    """A tensor on a device as a data matrix, after the checks that X gets in NumPy."""
    import torch

    from nmfmerge.data.on_torch import TorchData

    X = X.detach()
    if X.is_complex():
        raise TypeError("X is complex; NMF needs real values: take abs(X)")
    if X.ndim != 2:
        raise ValueError(
            f"X has {X.ndim} dimension(s); expected a 2-D tensor of rows and columns: use "
            "X.reshape(-1, 1) for a single column"
        )
    if min(X.shape) == 0:
        raise ValueError(f"X is empty: its shape is {tuple(X.shape)}; it needs rows and columns")
    X = X.float() if _is_half(X) else X
    X = X if X.is_floating_point() else X.double()
    if X.layout != torch.strided:
        X = X.to_sparse_coo().coalesce().to_sparse_csr()
    values = X.values() if X.layout == torch.sparse_csr else X
    low, high = (float(values.min()), float(values.max())) if values.numel() else (0.0, 0.0)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError(
            "X contains NaN or infinity; NMF needs finite values: drop or fill those entries first"
        )
    if low < 0:
        raise ValueError(
            f"Negative values in data passed to NMF (the least is {low:.6g}); X must be "
            "nonnegative: shift it, clip it or take magnitudes first"
        )
    return TorchData(X, unit_exponent(high), tf32)


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
            f"device={device!r} needs PyTorch: install it with pip install 'nmfmerge[gpu]'"
        ) from None
    try:
        if is_tensor(X):
            return X.to(device)
        if sp.issparse(X):
            X = X.tocsr()
            rows, columns, values = map(torch.from_numpy, (X.indptr, X.indices, X.data))
            return torch.sparse_csr_tensor(
                rows, columns, values, size=X.shape, check_invariants=False
            ).to(device)
        return torch.from_numpy(np.ascontiguousarray(X)).to(device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"device={device!r} cannot be used ({reason}); leave it out to fit on the CPU"
        ) from error


def _is_half(X: "torch.Tensor") -> bool:
    return X.is_floating_point() and X.element_size() < 4
