"""X as a SciPy sparse matrix or array, CSR or CSC; it is never made dense."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.data.base import DataMatrix


class SparseData(DataMatrix):
    """A CSR or CSC matrix as a data matrix; only its stored values are read."""

    def __init__(self, X: Any) -> None:
        super().__init__()
        self.X = X
        self.shape = X.shape
        self.dtype = X.dtype
        values = X.data.astype(np.float64, copy=False)
        self.norm2 = float(np.vdot(values, values))
        self.mean = float(values.sum() / (X.shape[0] * X.shape[1]))

    @staticmethod
    def accepts(X: Any) -> bool:
        """Whether X is of this kind."""
        return sp.issparse(X) and X.format in ("csr", "csc")

    def HXt(self, H: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product (X Hᵀ)ᵀ, r × m, into ``out``."""
        out[:] = (self.X @ H.T).T
        return out

    def WtX(self, Wt: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product Wᵀ X, r × n, into ``out``."""
        out[:] = (self.X.T @ Wt.T).T
        return out

    def residual_norm2(self, Wt: np.ndarray, H: np.ndarray) -> float:
        """‖X − WH‖²: exact on the stored values, by Grams on the rest."""
        # Σ over all of (wh)² is ⟨WᵀW, HHᵀ⟩; trade its share at stored values for (x − wh)².
        Wt64 = Wt.astype(np.float64, copy=False)
        H64 = H.astype(np.float64, copy=False)
        everywhere = float(np.vdot(Wt64 @ Wt64.T, H64 @ H64.T))
        stored, fitted = self._at_stored_values(Wt64, H64)
        return max(0.0, stored + max(0.0, everywhere - fitted))

    def _at_stored_values(self, Wt: np.ndarray, H: np.ndarray) -> tuple[float, float]:
        """Σ(x − wh)² and Σ(wh)² over the stored values, by slices of the major axis."""
        major, minor = (Wt, H) if self.X.format == "csr" else (H, Wt)
        step = max(1, 2**16 // max(1, self.X.nnz // max(1, len(self.X.indptr) - 1)))
        squares = fits = 0.0
        for start in range(0, len(self.X.indptr) - 1, step):
            bounds = self.X.indptr[start : start + step + 1]
            here = slice(bounds[0], bounds[-1])
            lines = start + np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
            fit = np.einsum("ri,ri->i", major[:, lines], minor[:, self.X.indices[here]])
            residual = self.X.data[here] - fit
            squares += float(np.vdot(residual, residual))
            fits += float(np.vdot(fit, fit))
        return squares, fits
