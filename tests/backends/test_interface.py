"""Every operation of `backends.interface` on every backend, against its NumPy twin.

An operation is a function of a backend and of operands that are its own. It runs twice, on the
backend and on the plain NumPy of `reference`, and what it returns has to agree.
"""

import importlib.util
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.backends import entrywise, interface, reference
from nmfmerge.backends import numba as on_numpy
from nmfmerge.backends.interface import Capability
from nmfmerge.matrices import wrap
from nmfmerge.matrices.weighted import EntryWeights

N, STARTS = 9, 3
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
SHAPES = [(1, 3), (5, 70)] if INTERPRETED else [(1, 3), (3, 64), (13, 130)]
BY_TRITON = (
    "hals_sweep_ or gcd_sweep_ or fit_noted or extrapolate_ or note_steps_ or judge_ or settle_"
)
PROTOCOLS = {
    None: interface.Backend,
    Capability.MULTIPLICATIVE: interface.MultiplicativeBackend,
    Capability.SUBPROBLEMS: interface.SubproblemBackend,
    Capability.SPREAD: interface.SpreadBackend,
    Capability.ENTRYWISE: entrywise.EntrywiseBackend,
    Capability.FORESIGHT: interface.ForesightBackend,
}


class OnNumPy:
    """Operands in memory."""

    backend = on_numpy

    def __init__(self, X):
        self.X = X

    def long(self, F):
        return F.copy()

    short = long

    def cross(self, S):
        """The cross product of X with a short factor."""
        return S @ self.X.T

    def lines(self, X):
        """The rows of X as the backend reads them: of a dense X, then of a sparse one."""
        return [wrap(A).lines("W") for A in (X, np.asfortranarray(X), sp.csr_array(X))]

    def weights(self, M):
        """The rows of weights as the backend reads them: dense, then sparse."""
        return [EntryWeights(A, complement=False).lines("W") for A in (M, sp.csr_array(M))]

    def read(self, A):
        return A.toarray() if sp.issparse(A) else A


class OnReference(OnNumPy):
    backend = reference

    def lines(self, X):
        return [X] * 3

    def weights(self, M):
        return [M, M]


class OnTorch(OnNumPy):
    """Operands as tensors."""

    def __init__(self, X):
        self.X = X
        pytest.importorskip("torch")
        from nmfmerge.backends import torch as on_torch

        self.backend = on_torch

    def long(self, F):
        import torch

        return torch.from_numpy(F.copy())

    short = long

    def cross(self, S):
        return self.short(super().cross(self.backend.to_host(S)))

    def lines(self, X):
        import torch

        from nmfmerge.matrices.torch import TorchData

        X = torch.from_numpy(X.copy())
        across = X.T.contiguous().T
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that sparse tensors are new
            sparse = X.to_sparse_csr()
        return [TorchData(A).lines("W") for A in (X, across, sparse)]

    def weights(self, M):
        return [self.short(M), self.short(np.asfortranarray(M))]

    def read(self, A):
        if not hasattr(A, "detach"):
            return A
        return self.backend.to_host(A if A.layout == torch_strided() else A.to_dense())


def torch_strided():
    import torch

    return torch.strided


class InShards(OnNumPy):
    """Long factors in shards; all else is in memory."""

    by_columns = False

    def __init__(self, X):
        da = pytest.importorskip("dask.array")
        from nmfmerge.backends import shards
        from nmfmerge.matrices.dask.opening import open_dask

        self.backend, self.m = shards, len(X)
        length = 1 + self.m // 4
        if self.by_columns:
            self.data = open_dask(da.from_array(X.T, chunks=(N, length)))
        else:
            self.data = open_dask(da.from_array(X, chunks=(length, N)))
        assert self.data.unit == 1

    def long(self, F):
        return self.data.place(F.copy(), self.data.long)

    def cross(self, S):
        return self.data.cross(self.data.long, S)

    def read(self, A):
        """A long factor as an array: its products with unit vectors that are as long."""
        if not hasattr(A, "shards"):
            return A
        unit = self.long(np.eye(self.m)[None].astype(A.dtype))
        return np.stack([rows.products(unit[0]) for rows in A])


class InShardsOfColumns(InShards):
    by_columns = True


HOLDERS = {
    "numpy": OnNumPy,
    "torch": OnTorch,
    "shards of rows": InShards,
    "shards of columns": InShardsOfColumns,
}


class Operands:
    """The same numbers for every backend, where it has them; of the last start one of S is zero."""

    def __init__(self, holder, r, m, dtype):
        rng = np.random.default_rng(r)
        X = rng.random((m, N)).astype(dtype)
        X[0, 0] = 0.5 + X[0, 0] / 2  # in the scale of a fit
        self.on = holder(X)
        k, long, short = self.on.backend, self.on.long, self.on.short
        F = rng.random((4, STARTS, r, m)).astype(dtype)
        S = rng.random((STARTS, r, N)).astype(dtype)
        if r > 2:
            S[-1, r // 2] = 0
        self.signed, self.F = long(F[0] - F[1]), long(F[0] * (F[1] > 0.3))
        self.previous, self.other = long(F[2]), long(F[3])
        self.S, self.T = short(S), short(rng.random(S.shape).astype(dtype))
        self.G = k.from_host(S @ S.swapaxes(1, 2), self.S)
        self.C = self.on.cross(self.S)
        self.A, self.scales = rng.random((STARTS, 2, r)), rng.standard_normal((STARTS, r))
        self.beta = self.number(np.array([0.0, 0.5, 0.9]))
        self.X, self.rng, self.r, self.m = X, rng, r, m

    def number(self, array):
        """A small array of float64 or truth values."""
        return self.on.backend.from_host(array, self.S)


OPERATIONS = {}


def operation(function):
    OPERATIONS[function.__name__] = function
    return function


@operation
def numbers(k, x):
    return (
        k.numbers(STARTS, 1.5, x.S), k.numbers((STARTS, 2), 0.0, x.S), k.numbers(2, True, x.S)
    )  # fmt: skip


@operation
def empty(k, x):
    A = k.empty((2, 5), x.S)
    A[:] = 3
    return A


@operation
def indices(k, x):
    return k.numbers((2, 4), 1.0, x.S)[:, k.indices(np.array([3, 1]), x.S)]


@operation
def copy(k, x):
    copies = k.copy(x.F), k.copy(x.S)
    k.extrapolate_(x.F, x.previous, x.beta)
    x.S[:] = 0
    return copies


@operation
def take(k, x):
    return k.take(x.F, [2, 0]), k.take(x.S, [1]), k.take(x.beta, [2, 1])


@operation
def stack(k, x):
    return k.stack([x.F[2], x.previous[1]]), k.stack([x.S[1]])


@operation
def contiguous(k, x):
    return k.contiguous(x.F), k.contiguous(x.S[:, :, ::2])


@operation
def to_host(k, x):
    host = k.to_host(x.S), k.to_host(x.beta)
    assert all(type(A) is np.ndarray for A in host)
    return host


@operation
def from_host(k, x):
    return k.from_host(k.to_host(x.S), x.S)


@operation
def gram64(k, x):
    grams = k.gram64(x.signed), k.gram64(x.S)
    assert all(x.on.read(G).dtype == np.float64 for G in grams)
    return grams


@operation
def products(k, x):
    return k.products(x.signed, x.F), k.products(x.signed, k.take(x.F, [1])), k.products(x.S, x.T)


@operation
def row_products(k, x):
    return k.row_products(x.C, x.signed), k.row_products(x.S, x.T)


@operation
def inner_products(k, x):
    return k.inner_products(x.signed, x.C), k.inner_products(x.S, x.T)


@operation
def sums(k, x):
    return k.sums(x.F), k.sums(x.S)


@operation
def diagonals(k, x):
    G = k.copy(k.gram64(x.F))
    D = k.diagonals(G)
    D += 2
    return k.copy(D), G


@operation
def part_norms(k, x):
    return k.part_norms(x.signed), k.part_norms(x.S)


@operation
def mix(k, x):
    return k.mix(x.A, x.signed), k.mix(x.A, k.take(x.signed, [2])), k.mix(x.A, x.S)


@operation
def scaled(k, x):
    return k.scaled(x.signed, x.scales), k.scaled(x.S, x.scales)


@operation
def scaled_positive(k, x):
    return k.scaled_positive(x.signed, x.scales), k.scaled_positive(x.S, x.scales)


@operation
def joined(k, x):
    return k.joined(x.F, x.signed), k.joined(x.S, x.T)


@operation
def with_zero_components(k, x):
    return k.with_zero_components(x.F, 2), k.with_zero_components(x.S, 1)


@operation
def spread(k, x):
    return k.spread(x.A, x.signed)


@operation
def hals_sweep_(k, x):
    sweeps = [k.hals_sweep_(x.F, x.G, x.C, n)[:3] for n in (1, 4)]
    cross = x.number(np.random.default_rng(0).standard_normal(x.S.shape))
    cross = cross.to(x.S.dtype) if hasattr(cross, "to") else cross.astype(x.S.dtype)
    return x.F, *sweeps, k.hals_sweep_(x.S, x.G, cross)[:3], x.S


@operation
def gcd_sweep_(k, x):
    return *k.gcd_sweep_(x.F, x.G, x.C, 1e-3), x.F


@operation
def descend_(k, x):
    room = {}
    return *k.descend_(x.F, x.G, x.C, room), *k.descend_(x.F, x.G, x.C, room), x.F


@operation
def fit_noted(k, x):
    """Not all sweeps note it, but what is noted is right."""
    noted = k.fit_noted(k.hals_sweep_(x.F, x.G, x.C, 2))
    return k.inner_products(x.F, x.C) if noted is None else noted


@operation
def extrapolate_(k, x):
    cut = k.scaled_positive(x.signed, np.ones((STARTS, x.r)))
    k.gram64(x.previous)  # as a sweep would, it has shards make it
    k.extrapolate_(cut, x.previous, x.beta)
    k.extrapolate_(x.S, x.T, x.beta)
    return cut, x.previous, x.S, x.T


def _extrapolated(k, x, foreseen):
    """A sweep, then an extrapolation; by how much the objective rose, and what there is then."""
    before = k.copy(x.F)
    if Capability.FORESIGHT in k.capabilities:
        k.foresee_(x.F, x.beta if foreseen else x.beta / 2, True)
    k.hals_sweep_(x.F, x.G, x.C, 1)
    k.extrapolate_(x.F, before, x.beta)
    return before


@operation
def rise(k, x):
    before = _extrapolated(k, x, foreseen=True)
    T_before = k.copy(x.T)
    k.extrapolate_(x.T, x.S, x.beta)
    return k.rise(x.F, x.G, x.C, before), k.rise(x.T, x.G, x.S, T_before)


@operation
def foresee_(k, x):
    """Foreseen rightly or not, the products are those of the factor."""
    before = _extrapolated(k, x, foreseen=False)
    return x.F, before, k.gram64(x.F), k.inner_products(x.F, x.C)


@operation
def note_steps_(k, x):
    ratio, moved, notes = x.rng.random((STARTS, 5)), x.rng.random((STARTS, 5)), np.ones((STARTS, 9))
    notes[:, 1:6] = x.rng.random((STARTS, 5))
    notes[1, 3] = 0
    ratio, wide = x.number(ratio), x.number(notes)
    k.note_steps_(ratio, x.number(moved), wide[:, 1:6])  # columns of wider notes, too
    return ratio


@operation
def largest_step(k, x):
    ratio, WtW, HHt = x.rng.random((STARTS, 5)), *_grams(x.rng, STARTS)
    ratio[:, 2] = 9  # of a component that is negligible
    return k.largest_step(*(x.number(A) for A in (ratio, WtW, HHt)), 1e-6)


def _grams(rng, n):
    W, H = rng.random((2, n, 5, 8))
    W[:, 2] *= 1e-8
    return W @ W.swapaxes(1, 2), H @ H.swapaxes(1, 2)


def _judgement(k, x, has_rise, limit, active=None):
    n, norm2 = 40, 300.0
    WtW, HHt = _grams(x.rng, n)
    rise = x.rng.standard_normal(n) if has_rise else None
    objective = x.rng.choice([1e-4, 1.9, 2.1, 50.0, np.inf], n)
    weight, bound, last_weight = x.rng.random((3, n))
    bound += 0.5
    rest, taken_back = x.rng.random((2, n)) > 0.5
    now = x.rng.choice([1e-3, 2.0, 40.0], n)
    fit = norm2 / 2 + (WtW * HHt).sum(axis=(1, 2)) / 2 - now
    ratio = x.rng.random((n, 5)) * x.rng.choice([1.0, 1e-5], (n, 1))
    state = {
        "objective": objective, "weight": weight, "bound": bound, "last_weight": last_weight,
        "rest": rest, "taken_back": taken_back,
    }  # fmt: skip
    state = SimpleNamespace(**{name: x.number(A.copy()) for name, A in state.items()})
    fit, WtW, HHt, ratio = (x.number(A) for A in (fit, WtW, HHt, ratio))
    rise = None if rise is None else x.number(rise)
    step = k.judge_(state, fit, WtW, HHt, ratio, norm2, rise, limit, 1e-6, active)
    outcome = step, *vars(state).values()
    back = x.on.read(state.taken_back)
    assert back.any()
    assert not back.all()
    assert not back[rest].any()  # a plain step is kept, whatever it did
    return outcome


@operation
def judge_(k, x):
    return [_judgement(k, x, *case) for case in ((False, 0.0), (True, 0.0), (True, 3.0))]


@operation
def settle_(k, x):
    results = [k.gram64(x.previous)]
    for back in ([True, False, True], [True] * 3, [False] * 3):
        k.settle_(x.S, x.F, x.T, x.other, x.number(np.array(back)))
        results += [k.copy(A) for A in (x.S, x.F, x.T, x.other)]
        k.extrapolate_(x.F, x.previous, x.beta)
    return results


@operation
def mean_sizes(k, x):
    return k.mean_sizes(x.signed)


@operation
def mu_step_(k, x):
    """Of a cross product that is negative in places, as held components can make it."""
    C = k.scaled(x.C, np.where(np.arange(x.r) == 1, -1.0, np.ones((STARTS, 1))))
    offset = x.number(np.array([1e-8, 1e-3, 0.5]))
    return x.F, k.mu_step_(x.F, x.G, C, offset, tiny=1e-30)


def by_lines(pass_):
    """The results of a pass over the lines of X, for each side of it and each kind of matrix."""

    def results(k, x):
        zeros = np.random.default_rng(0).random(x.X.shape) < 0.4
        X, floor = np.where(zeros, 0, x.X), 1e-6
        X[0] = 0
        rows, columns = x.on.lines(X), x.on.lines(np.ascontiguousarray(X.T))
        return [
            pass_(k, x, k.copy(F), fixed, lines, floor)
            for F, fixed, both in ((x.F, x.T, rows), (x.S, x.other, columns))
            for lines in both
        ]

    results.__name__ = pass_.__name__
    return results


@operation
@by_lines
def kl_line_sums(k, x, F, fixed, lines, floor):
    sums = k.kl_line_sums(lines, F.shape[2], fixed.shape[2])
    assert type(sums) is np.ndarray
    assert sums.dtype == np.float64
    return sums


@operation
@by_lines
def kl_sweep_(k, x, F, fixed, lines, floor):
    free = x.number(np.arange(x.r) != 1)
    first = k.kl_sweep_(F, fixed, lines, floor)[:2]
    second = k.kl_sweep_(F, fixed, lines, floor, 3, True, free, l1=0.1, l2=0.3)
    sums = x.number(np.random.default_rng(0).random(F.shape) * 5)
    sums[:, 0, 1] = 0
    third = k.kl_sweep_(F, fixed, lines, floor, 2, True, l1=0.0, l2=0.3, sums=sums)
    return F, *first, *second, *third


@operation
@by_lines
def kl_mu_step_(k, x, F, fixed, lines, floor):
    first = k.kl_mu_step_(F, fixed, lines, floor, 1e-30)
    second = k.kl_mu_step_(F, fixed, lines, floor, 0.01, l1=0.1, l2=0.3)
    sums = x.number(0.1 + np.random.default_rng(0).random(F.shape))
    return F, *first, *second, *k.kl_mu_step_(F, fixed, lines, floor, 1e-30, sums=sums)


@operation
def weighted_sweep_(k, x):
    """Weights of which some are zero, and of one line all; then few that are not one."""
    rng = np.random.default_rng(0)
    M = (rng.random(x.X.shape) * (rng.random(x.X.shape) > 0.3)).astype(x.X.dtype)
    M[0] = 0
    few = M * (rng.random(M.shape) < 0.2)
    T = k.to_host(x.T)
    free, found = x.number(np.arange(x.r) != 1), []
    for U, G in ((M, None), (few, k.gram64(x.T))):
        C = x.on.short(T @ (x.X * (U if G is None else 1 - U)).T)
        for lines in x.on.weights(U):
            for options in ({}, {"n_sweeps": 2, "free": free, "l1": 0.1, "l2": 0.3}):
                for multiply in (False, True):
                    F = k.copy(x.F)
                    notes = k.weighted_sweep_(
                        F, x.T, C, G, lines, value=True, multiply=multiply, **options
                    )  # fmt: skip
                    found += [F, *notes]
    return found


@operation
def missing_cross_(k, x):
    """Of u, of which many are zero, and of one line all."""
    U = np.random.default_rng(0).random(x.X.shape).astype(x.X.dtype)
    U[U < 0.7] = U[0] = 0
    found = []
    for lines in x.on.weights(U)[-1:]:  # sparse where the backend knows that
        for add in (True, False):
            C = k.copy(x.F)
            found += [k.missing_cross_(x.F, x.T, C, lines, add), C]
    return found


@operation
@by_lines
def kl_explained(k, x, F, fixed, lines, floor):
    return k.kl_explained(F, fixed, lines, floor)


@operation
@by_lines
def kl_x_log_y(k, x, F, fixed, lines, floor):
    return k.kl_x_log_y(F, fixed, lines, floor)


@operation
@by_lines
def kl_divergences(k, x, F, fixed, lines, floor):
    values = k.kl_divergences(F, fixed, lines, floor)
    assert x.on.read(values).dtype == np.float64
    return values


@operation
@by_lines
def kl_ratios(k, x, F, fixed, lines, floor):
    return [k.kl_ratios(F[i], fixed[i], lines, floor) for i in range(STARTS)]


@operation
@by_lines
def kl_merge_rises(k, x, F, fixed, lines, floor):
    F, fixed = k.to_host(F), k.to_host(fixed)
    steps = 0.1 * (F[0] - F[1])[: min(x.r, 3)], (fixed[0] - fixed[1])[: min(x.r, 3)]
    rises = k.kl_merge_rises(F[2], fixed[2], lines, floor, *steps)
    assert type(rises) is np.ndarray
    return rises


@operation
def component_sums(k, x):
    return k.component_sums(x.F), k.component_sums(x.S)


@operation
def largest_ratio(k, x):
    ratio, sizes = x.rng.random((STARTS, 5)), x.rng.random((STARTS, 5))
    ratio[:, 2], sizes[:, 2] = 9, 1e-8  # of a component that is negligible
    sizes[1] = 0
    return k.largest_ratio(x.number(ratio), x.number(sizes), 1e-6)


def _judgement_of_values(k, x, active=None):
    n = 40
    state = {
        "objective": x.rng.choice([1e-4, 1.9, 2.1, np.inf], n), "weight": x.rng.random(n),
        "bound": 0.5 + x.rng.random(n), "last_weight": x.rng.random(n),
        "rest": x.rng.random(n) > 0.5, "taken_back": x.rng.random(n) > 0.5,
    }  # fmt: skip
    now, step = x.rng.choice([1e-3, 1.93, 2.0, 2.05], n), x.rng.random(n)
    state = SimpleNamespace(**{name: x.number(A) for name, A in state.items()})
    verdict = k.judge_values_(state, x.number(now), x.number(step), 0.06, active)
    back = x.on.read(state.taken_back)
    assert back.any()
    assert not back.all()
    return verdict, *vars(state).values()


@operation
def judge_values_(k, x):
    return _judgement_of_values(k, x)


def operations_of(capabilities):
    """The names of what a backend has to have."""
    return {
        name
        for capability, protocol in PROTOCOLS.items()
        if capability is None or capability in capabilities
        for name in vars(protocol)
        if not name.startswith("_") and name != "capabilities"
    }


def test_every_operation_is_tested():
    assert set(OPERATIONS) == operations_of(PROTOCOLS)


@pytest.fixture(
    params=[
        "numpy",
        pytest.param("torch", marks=pytest.mark.tensors),
        "shards of rows",
        "shards of columns",
    ]
)
def holder(request):
    if request.param == "torch":
        request.getfixturevalue("_one_torch_thread")
    return HOLDERS[request.param]


def assert_agree(ours, theirs, read, rtol):
    """Two results, or two tuples of them."""
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_agree(one, other, read, rtol)
        return
    ours = read(ours)
    assert ours.shape == theirs.shape
    size = np.abs(theirs[np.isfinite(theirs)]).max(initial=0)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * size + (0.01 * rtol) ** 2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_is_that_of_plain_numpy(holder, name, dtype):
    for r, m in SHAPES:
        ours, theirs = Operands(holder, r, m, dtype), Operands(OnReference, r, m, dtype)
        k = ours.on.backend
        if name not in operations_of(k.capabilities):
            assert not hasattr(k, name), "it is there and not declared"
            pytest.skip("it is not declared")
        expected = OPERATIONS[name](reference, theirs)
        rtol = 1e-10 if dtype == np.float64 else 2e-4
        assert_agree(OPERATIONS[name](k, ours), expected, ours.on.read, rtol)


@pytest.mark.parametrize("name", ["hals_sweep_", "judge_"])
def test_starts_that_wait_stay_as_they_are(holder, name):
    ours, theirs = Operands(holder, 5, 70, np.float64), Operands(OnReference, 5, 70, np.float64)
    if Capability.QUEUE not in ours.on.backend.capabilities:
        pytest.skip("no start waits")

    def results(x):
        k = x.on.backend
        if name == "judge_":
            return _judgement(k, x, True, 1.0, x.number(np.arange(40) % 3 > 0))
        before = k.copy(x.F)
        sweep = k.hals_sweep_(x.F, x.G, x.C, 2, x.number(np.array([True, False, True])))
        np.testing.assert_array_equal(x.F[1], before[1])
        return x.F, *sweep[:3]

    assert_agree(results(ours), results(theirs), ours.on.read, 1e-10)


@pytest.mark.tensors
@pytest.mark.skipif(INTERPRETED, reason="this is the run inside")
def test_triton_kernels_are_those_of_plain_numpy():
    """What the Triton kernels do on a GPU, Triton's interpreter does here."""
    pytest.importorskip("torch")
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    here = Path(__file__)
    files = str(here), str(here.with_name("test_torch_kernels.py"))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files,
         "-m", "tensors", "-k", f"{BY_TRITON} or torch_kernels"],
        env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
