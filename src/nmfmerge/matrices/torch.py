"""X as a PyTorch tensor, dense or sparse CSR, on any device."""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch

from nmfmerge.backends import torch as on_torch
from nmfmerge.backends.torch.lines import Lines, lines_of_csr, lines_of_dense
from nmfmerge.matrices.base import Array, DataMatrix, Product, Side
from nmfmerge.matrices.dense import DenseData
from nmfmerge.matrices.offers import Need
from nmfmerge.matrices.rules import Rule
from nmfmerge.matrices.scale import IN_PLACE
from nmfmerge.matrices.sparse import SparseData
from nmfmerge.matrices.svd import Check, TruncatedSVD

_DTYPES: dict[Any, Any] = {torch.float32: np.dtype("f4"), torch.float64: np.dtype("f8")}
_SMALL = 4_000_000  # entries up to which the singular vectors are computed on the host
BLOCK_ENTRIES = 2**25  # of a residual at a time


class TorchData(DataMatrix):
    """A tensor as a data matrix; factors and products are tensors where it is.

    Parameters
    ----------
    X : tensor (m, n)
        Strided, or sparse CSR.
    unit_exponent : int
        X / 4ᵏ is factorized, k this number.
    tf32 : bool
        Whether products with X may use TF32, which keeps 10 of the 23 bits of a float32.
    """

    offers = frozenset({Need.FACTORS, Need.LINES})
    kind = "a tensor"
    in_memory = "X.cpu().numpy()"
    kernels: ClassVar[Any] = on_torch
    iterations_per_sync: ClassVar[int] = 16

    def __init__(self, X: torch.Tensor, unit_exponent: int = 0, tf32: bool = False) -> None:
        super().__init__(X, unit_exponent)
        self.dtype = _DTYPES[X.dtype]
        self.tf32 = tf32
        self.is_sparse = X.layout == torch.sparse_csr
        self._divided = abs(2 * unit_exponent) > IN_PLACE[self.dtype]
        if self._divided:  # twice by the unit, whose square may be out of range
            X, self.scale = X * (1 / self.unit) * (1 / self.unit), 1.0
        else:
            self.scale = self.unit**-2
        self.X = X if self.is_sparse else _in_one_piece(X)
        self._Xt = _transposed(self.X) if self.is_sparse else self.X.T
        values = self.X.values() if self.is_sparse else self.X
        total = float(values.sum(dtype=torch.float64)) * self.scale
        self.norm2 = sum(float(part.double().square().sum()) for part in _parts(values))
        self.norm2 *= self.scale**2
        self.mean = total / (self.shape[0] * self.shape[1])

    @staticmethod
    def accepts(X: Any) -> bool:
        """True if X is of this kind."""
        return isinstance(X, torch.Tensor)

    def HXt(self, H: Array, out: Array) -> Array:
        """Cross product (X Hᵀ)ᵀ, r × m, into ``out``."""
        return self._product(H, self.X, self._Xt, out)

    def WtX(self, Wt: Array, out: Array) -> Array:
        """Cross product Wᵀ X, r × n, into ``out``."""
        return self._product(Wt, self._Xt, self.X, out)

    def _product(self, F: Array, A: Array, At: Array, out: Array) -> Array:
        """F Aᵀ into ``out``; At is Aᵀ."""
        if self.is_sparse:
            torch.mul((A @ F.T).T, self.scale, out=out)
        elif self.tf32 and F.is_cuda and F.dtype == torch.float32:
            with _TF32():
                torch.addmm(out, F, At, beta=0, alpha=self.scale, out=out)
        else:
            torch.addmm(out, F, At, beta=0, alpha=self.scale, out=out)
        return out

    def lines(self, side: Side) -> Lines:
        """Rows of X for "W", columns for "H"; of a sparse X both are there."""
        if self.is_sparse:
            return lines_of_csr(self.X if side == "W" else self._Xt, self.scale)
        return lines_of_dense(self.X if side == "W" else self.X.T, self.scale)

    def gram(self, F: Array, out: Array) -> Array:
        """F Fᵀ of each start into ``out``."""
        return torch.bmm(F, F.mT, out=out)

    def residual_norm2(self, Wt: Array, H: Array) -> float:
        """‖X − WH‖²: by blocks of rows, or for sparse X exact on its stored values."""
        return float(self._residual_norm2(Wt, H))

    def residual_norms2(self, Wt: Array, H: Array) -> list[float]:
        """`residual_norm2` of each start, looked at once in the end."""
        return torch.stack(
            [self._residual_norm2(*pair) for pair in zip(Wt, H, strict=True)]
        ).tolist()

    def _residual_norm2(self, Wt: Array, H: Array) -> Array:
        Wt, H = Wt.double(), H.double()
        if self.is_sparse:
            return self._sparse_residual_norm2(Wt, H)
        rows = max(1, BLOCK_ENTRIES // self.shape[1])
        total = torch.zeros((), dtype=torch.float64, device=H.device)
        for start in range(0, self.shape[0], rows):
            part = slice(start, start + rows)
            residual = self.X[part].double() * self.scale
            residual -= Wt[:, part].T @ H
            total += residual.square_().sum()
        return total

    def _sparse_residual_norm2(self, Wt: Array, H: Array) -> Array:
        everywhere = ((Wt @ Wt.T) * (H @ H.T)).sum()
        row, column = _rows_of(self.X), self.X.col_indices()
        values = self.X.values()
        stored = torch.zeros_like(everywhere)
        fitted = torch.zeros_like(everywhere)
        size = max(1, BLOCK_ENTRIES // max(1, len(H)))
        for start in range(0, len(values), size):
            part = slice(start, start + size)
            fit = (Wt[:, row[part]] * H[:, column[part]]).sum(dim=0)
            stored += (values[part].double() * self.scale - fit).square().sum()
            fitted += fit.square().sum()
        return stored + (everywhere - fitted).clamp(min=0)

    def _elementwise_cross_(
        self, side: Side, own: Array, other: Array, rule: Rule, out: Array
    ) -> Array:
        if self.is_sparse:
            return self._sparse_elementwise_cross_(side, own, other, rule, out)
        X = self.X if side == "W" else self.X.T
        rows = max(1, BLOCK_ENTRIES // X.shape[1])
        total = torch.zeros((), dtype=torch.float64, device=out.device)
        for start in range(0, X.shape[0], rows):
            part = slice(start, start + rows)
            E, terms = rule.of(X[part] * self.scale, own[:, part].T @ other, torch)
            out[:, part] = other @ E.T
            total += terms.sum(dtype=torch.float64)
        return total

    def _sparse_elementwise_cross_(
        self, side: Side, own: Array, other: Array, rule: Rule, out: Array
    ) -> Array:
        """Both products are of a CSR matrix with the values of E: atomic sums would change bits."""
        X = self.X if side == "W" else self._Xt
        row, column, values = _rows_of(X), X.col_indices(), X.values()
        E, total = torch.empty_like(values), 0.0
        size = max(1, BLOCK_ENTRIES // max(1, len(own)))
        for start in range(0, len(values), size):
            part = slice(start, start + size)
            y = (own[:, row[part]] * other[:, column[part]]).sum(dim=0)
            E[part], terms = rule.of(values[part] * self.scale, y, torch)
            total += terms.sum(dtype=torch.float64)
        placed = torch.sparse_csr_tensor(
            X.crow_indices(), column, E, size=X.shape, check_invariants=False
        )
        out.copy_((placed @ other.T).T)
        return total

    def digest(self) -> str:
        """A hash of the values of X, that of the same array in NumPy."""
        return self.on_host().digest()

    def place(self, F: np.ndarray, side: Side = "W") -> Array:
        """A factor in the precision of X, where X is."""
        F = np.ascontiguousarray(F, dtype=self.dtype)
        return torch.from_numpy(F).to(self.X.device, copy=True)

    def returned(self, F: Array) -> Array:
        """A factor of X from one of X / unit²."""
        return self.to_user(F if self.unit == 1 else F * self.unit)

    def read_only_factors(self, Wt: Array, H: Array) -> tuple[Array, Array]:
        """Copies of factors of X, which may be changed: tensors cannot be read-only."""
        return self.to_user(Wt * self.unit), self.to_user(H * self.unit)

    def half(self, axis: int, first: int) -> DataMatrix:
        """Every other row (axis 0) or column (axis 1) of X, on the host."""
        return self.on_host().half(axis, first)

    def on_host(self) -> DataMatrix:
        """X in memory."""
        exponent = round(np.log2(self.unit))
        X = self.X * self.unit * self.unit if self._divided else self.X
        if not self.is_sparse:
            return DenseData(X.cpu().numpy(), exponent)
        parts = (X.values(), X.col_indices(), X.crow_indices())
        host = sp.csr_array(tuple(part.cpu().numpy() for part in parts), shape=self.shape)
        return SparseData(host, exponent)

    def _compute_svd(self, r: int, check: Check | None) -> TruncatedSVD:
        if self._is_small:
            return self.on_host()._compute_svd(r, check)
        return super()._compute_svd(r, check)

    @property
    def _is_small(self) -> bool:
        entries = len(self.X.values()) if self.is_sparse else self.X.numel()
        return entries <= _SMALL

    def products_on_host(self) -> tuple[Product, Product]:
        """Products with a copy of a small X, or on the device."""
        if self._is_small:
            return self.on_host().products_on_host()

        def on_device(product: Any) -> Product:
            def multiply(F: np.ndarray, out: np.ndarray) -> np.ndarray:
                placed = self.place(F)
                result = product(placed, out=on_torch.empty(out.shape, placed))
                out[:] = on_torch.to_host(result)
                return out

            return multiply

        return on_device(self.HXt), on_device(self.WtX)


class _TF32:
    """Lets matrix products use TF32, until the end of a ``with`` block."""

    def __enter__(self) -> None:
        self._before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True

    def __exit__(self, *error: object) -> None:
        torch.backends.cuda.matmul.allow_tf32 = self._before


def _in_one_piece(X: torch.Tensor) -> torch.Tensor:
    return X if X.is_contiguous() or X.T.is_contiguous() else X.contiguous()


def _parts(values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows = max(1, BLOCK_ENTRIES // max(1, values[:1].numel()))
    return values.split(rows)


def _rows_of(X: torch.Tensor) -> torch.Tensor:
    """The row of each stored value."""
    counts = X.crow_indices().diff()
    return torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)


def _transposed(X: torch.Tensor) -> torch.Tensor:
    """The transpose of a CSR matrix, as CSR."""
    m, n = X.shape
    row, column = _rows_of(X), X.col_indices()
    order = torch.argsort(column, stable=True)
    ends = torch.cumsum(torch.bincount(column, minlength=n), 0)
    starts = torch.cat([ends.new_zeros(1), ends])
    return torch.sparse_csr_tensor(
        starts, row[order], X.values()[order], size=(n, m), check_invariants=False
    )
