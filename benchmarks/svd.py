"""Truncated SVD: ours against SciPy's and randomized ones, on hard and on large matrices."""

import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh, svds

from benchmarks.common import DENSE, environment, has_real_data, load, sparse_sets, store
from nmfmerge import nmf, nmf_merge
from nmfmerge.matrices import DataMatrix, wrap
from nmfmerge.matrices.svd import TOLERANCE, truncated_svd


class Counted:
    """X of a data matrix, rows on its smaller side; counts products and vectors."""

    def __init__(self, X):
        self.data = wrap(X)
        m, n = self.data.shape
        self.long, self.short = max(m, n), min(m, n)
        self.passes = self.vectors = 0

    def _product(self, product, rows, length):
        self.passes += 1
        self.vectors += len(rows)
        rows = np.ascontiguousarray(rows, dtype=self.data.dtype)
        return product(rows, np.empty((len(rows), length), self.data.dtype))

    def X(self, rows):
        """Rows of the short side ↦ rows of the long side."""
        wide = self.data.shape[1] > self.data.shape[0]
        return self._product(self.data.WtX if wide else self.data.HXt, rows, self.long)

    def Xt(self, rows):
        """Rows of the long side ↦ rows of the short side."""
        wide = self.data.shape[1] > self.data.shape[0]
        return self._product(self.data.HXt if wide else self.data.WtX, rows, self.short)


def ours(A, r):
    def into(product):
        return lambda rows, out: np.copyto(out, product(rows)) or out

    svd = truncated_svd(into(A.X), into(A.Xt), (A.long, A.short), A.data.dtype, r)
    return svd.Ut, svd.s, svd.Vt


def _svds(solver):
    def method(A, r):
        operator = LinearOperator(
            (A.long, A.short),
            matvec=lambda v: A.X(v.reshape(1, -1))[0],
            rmatvec=lambda u: A.Xt(u.reshape(1, -1))[0],
            matmat=lambda V: A.X(V.T).T,
            rmatmat=lambda U: A.Xt(U.T).T,
            dtype=A.data.dtype,
        )
        rng = np.random.default_rng(0)
        size = {"arpack": A.short, "propack": A.long}.get(solver)
        v0 = rng.standard_normal(size).astype(A.data.dtype) if size else None
        # A number would be read as a seed by all; a generator starts them all alike.
        U, s, Vt = svds(operator, r, tol=TOLERANCE, v0=v0, solver=solver, rng=rng)
        order = np.argsort(-s)
        return U.T[order], s[order], Vt[order]

    return method


def gram_eigsh(A, r):
    operator = LinearOperator(
        (A.short, A.short), matvec=lambda v: A.Xt(A.X(v.reshape(1, -1)))[0], dtype=A.data.dtype
    )
    v0 = np.random.default_rng(0).standard_normal(A.short).astype(A.data.dtype)
    V = eigsh(operator, r, which="LA", tol=TOLERANCE, v0=v0)[1].T
    U, s, Yt = np.linalg.svd(A.X(V).T, full_matrices=False)
    return U.T, s, Yt @ V


def subspace_iteration(A, r):
    """Randomized subspace iteration with QR, until the residuals are those asked for."""
    V = np.random.default_rng(0).standard_normal((min(A.short, r + 8), A.short))
    V = np.linalg.qr(V.T)[0].T
    for _ in range(300):
        U = np.linalg.qr(A.X(V).T)[0].T
        Q, L = np.linalg.qr(A.Xt(U).T)
        P, s, Wt = np.linalg.svd(L.T)
        new = Wt @ Q.T
        outside = new[:r] - (new[:r] @ V.T) @ V
        V = new
        noise = np.sqrt(A.long) * np.finfo(A.data.dtype).eps
        if np.all(
            s[:r] * np.linalg.norm(outside, axis=1) <= np.maximum(TOLERANCE * s[:r], noise * s[0])
        ):
            break
    return (P.T @ U)[:r], s[:r], V[:r]


METHODS = {
    "ours": ours,
    "ARPACK": _svds("arpack"),
    "PROPACK": _svds("propack"),
    "LOBPCG": _svds("lobpcg"),
    "eigsh of the Gram": gram_eigsh,
    "subspace iteration": subspace_iteration,
}


def hard_cases():
    """Yield X and r: low rank, constant, blocks, repeated and decaying singular values, tiny."""
    rng = np.random.default_rng(0)
    for m, n in ((130, 110), (3, 2), (40, 90)):
        side = min(m, n)
        U = np.linalg.qr(rng.standard_normal((m, side)))[0]
        V = np.linalg.qr(rng.standard_normal((n, side)))[0]
        matrices = (
            np.full((m, n), 3.0),
            np.ones((m, n)) + (np.arange(m) < m // 2)[:, None],
            np.equal.outer(rng.integers(0, 6, m), rng.integers(0, 6, n)).astype(float),
            np.outer(rng.random(m), rng.random(n)),
            rng.random((m, 5)) @ rng.random((5, n)),
            np.eye(m, n),
            U * np.sort(rng.choice([10, 9.999999, 5, 1], side))[::-1] @ V.T,
            U * 0.1 ** np.arange(side) @ V.T,
            U * 0.9 ** np.arange(side) @ V.T,
            rng.random((m, n)),
            rng.poisson(0.05, (m, n)).astype(float),
        )
        for X in matrices:
            for dtype in (np.float32, np.float64):
                for r in sorted({1, min(9, side - 1), side - 1, side}):
                    yield X.astype(dtype), r


def is_right(X, r, U, s, Vt):
    """Residuals, σ against LAPACK and orthogonality, as tests/matrices/test_svd.py asks them."""
    if X.shape[1] > X.shape[0]:
        X = X.T
    noise = 10 * np.sqrt(len(X)) * np.finfo(X.dtype).eps
    X, U, s, Vt = (np.asarray(A, dtype=np.float64) for A in (X, U, s, Vt))
    if U.shape != (r, X.shape[0]) or Vt.shape != (r, X.shape[1]) or not np.isfinite(s).all():
        return False
    exact = np.linalg.svd(X, compute_uv=False)[:r]
    allowed = np.maximum(TOLERANCE * exact, noise * exact[0])
    errors = np.stack([
        np.abs(s - exact),
        np.linalg.norm(Vt @ X.T - s[:, None] * U, axis=1),
        np.linalg.norm(U @ X - s[:, None] * Vt, axis=1),
    ])  # fmt: skip
    skew = max(np.abs(F @ F.T - np.eye(r)).max() for F in (U, Vt))
    return bool(np.all(errors <= 1.1 * allowed) and skew <= max(2 * noise, 1e-10))


def hard_table():
    """How many hard cases each method gets right, wrong, gives up on; and twice the same bits."""
    cases = [(X, r, sp.csr_array(X)) for X, r in hard_cases()]
    lines = [
        "| method | cases | right | wrong | error raised | other bits the second time (r = 9) | CPU s |"
    ]
    lines.append("|---" * 7 + "|")
    for name, method in METHODS.items():
        right = wrong = raised = unlike = 0
        began = time.process_time()
        for X, r, matrix in cases:
            try:
                first = method(Counted(matrix), r)
                second = method(Counted(matrix), r) if r == 9 else first
            except Exception:  # whatever it is, there is no SVD
                raised += 1
                continue
            good = is_right(X, r, *first)
            right, wrong = right + good, wrong + (not good)
            unlike += not all(map(np.array_equal, first, second))
        seconds = time.process_time() - began
        print(f"{name}: {seconds:.1f} s", file=sys.stderr, flush=True)
        lines.append(
            f"| {name} | {len(cases)} | {right} | {wrong} | {raised} | {unlike} | {seconds:.1f} |"
        )
    return "\n".join(lines)


def text_like(m=2301, n=10080, topics=30, words=150):
    """Word counts with power laws: documents mix topics, which share their frequent words."""
    rng = np.random.default_rng(0)
    law = 1 / np.arange(1, n + 1)
    topic = np.array([0.6 * rng.permutation(law) + 0.4 * law for _ in range(topics)])
    topic /= topic.sum(axis=1, keepdims=True)
    rows = []
    for _ in range(m):
        length = int(rng.lognormal(np.log(words), 0.6)) + 5
        mixture = rng.dirichlet(np.full(topics, 0.1)) @ topic
        rows.append(np.bincount(rng.choice(n, length, p=mixture), minlength=n))
    return sp.csr_array(np.array(rows, dtype=np.float64))


def large_table(repeats=1):
    """Time, passes over X and vectors on large matrices."""
    text = text_like()
    sets = [("text-like", text, 6), ("text-like", text, 20), *sparse_sets()]
    sets.append(("uniform dense", np.random.default_rng(0).random((2000, 1500)), 20))
    lines = ["| data | shape | r | method | CPU ms | passes over X | vectors | residual / σ |"]
    lines.append("|---" * 8 + "|")
    for name, X, r in sets:
        runs = {}
        for _ in range(repeats):
            for label, method in METHODS.items():
                runs[label] = min(_timed(method, X, r), runs.get(label, (np.inf,)))
        for label, (seconds, *rest) in runs.items():
            cells = " | ".join(map(str, rest)) if rest else "did not converge | |"
            lines.append(
                f"| {name} | {X.shape[0]} × {X.shape[1]} | {r} | {label} | "
                f"{1000 * seconds:.0f} | {cells} |"
            )
    return "\n".join(lines)


def _timed(method, X, r):
    A = Counted(X)
    began = time.process_time()
    try:
        U, s, Vt = method(A, r)
    except Exception:  # did not converge
        return (np.inf,)
    seconds, passes, vectors = time.process_time() - began, A.passes, A.vectors
    s = s[:, None]
    errors = max(
        float(np.max(np.linalg.norm(A.X(Vt) - s * U, axis=1) / s[:, 0])),
        float(np.max(np.linalg.norm(A.Xt(U) - s * Vt, axis=1) / s[:, 0])),
    )
    return seconds, passes, vectors, f"{errors:.0e}"


def tolerance_table(*tolerances):
    """Fitting errors (%) from singular vectors of several accuracies."""
    data = (
        [d for d in (load_set() for load_set in DENSE) if d.X.size < 5e5] if has_real_data() else []
    )
    sets = [(d.name, d.X, d.n_components) for d in data]
    sets += [*sparse_sets(), ("text-like", text_like(), 6)]
    lines = ["| data | function | " + " | ".join(f"{t:g}" for t in tolerances) + " |"]
    lines.append("|---" * (len(tolerances) + 2) + "|")
    for name, X, r in sets:
        for function in (nmf, nmf_merge):
            cells = []
            for tolerance in tolerances:
                result = _with_tolerance(function, X, r, tolerance)
                cells.append(f"{result.fitting_error:.5f} ({result.n_iter})")
            lines.append(f"| {name} | {function.__name__} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _with_tolerance(function, X, r, tolerance):
    class Exactly(type(wrap(X))):
        def _compute_svd(self, r, check):
            return truncated_svd(
                self.HXt, self.WtX, self.shape, self.dtype, r, tolerance=tolerance, check=check
            )

    assert issubclass(Exactly, DataMatrix)
    return function(Exactly(X), r, n_init=1)


def main(what="methods"):
    """Print the comparison; with ``tolerance``, the fits from vectors of several accuracies."""
    warnings.simplefilter("ignore")
    facts = environment()
    print(f"{facts['cpu']}, BLAS threads {facts['threads']}, scipy {facts['scipy']}, "
          f"{facts['date']}, commit {facts['commit']}\n")  # fmt: skip
    if what == "tolerance":
        print(tolerance_table(1e-10, 1e-3, TOLERANCE, 0.1, 0.3))
        return
    tables = {"hard": hard_table(), "large": large_table()}
    store("svd", {"tables": tables})
    print(section())


def section():
    """The part of docs/benchmarks.md, from the stored result; nothing where there is none."""
    stored = load("svd")
    if stored is None:
        return ""
    facts, tables = stored["environment"], stored["tables"]
    return f"""
## Truncated SVD

Singular vectors start a factorization (NNDSVD) and steer recovery. Ours needs cross products of blocks only, so it
serves any kind of data in few passes over X. All methods have the same products, a fixed start and the tolerance
{TOLERANCE:g}; CPU time, as other work ran on the machine. {facts["cpu"]}, {facts["threads"][0]} BLAS thread, scipy {facts["scipy"]}, {facts["date"]}, after
commit {facts["commit"]}. Remake with `python -m benchmarks svd`.

Low-rank, constant, block, identity, clustered, decaying, uniform and sparse matrices up to 130 × 110, in float32 and
float64, 1 to min(m, n) triplets; *right* is by residuals, orthogonality and σ against LAPACK:

{tables["hard"]}

Large matrices:

{tables["large"]}
"""
