"""The API with matrices of every kind, shape and range, every solver, loss, start and limit.

Some have missing values or weights.

A call must give a valid result, or refuse its input by a ValueError or TypeError with a message;
the same call must give the same bits again, and leave its input as it was.
"""

import signal
import traceback
import warnings
from contextlib import contextmanager

import numpy as np
import pandas as pd
import scipy.sparse as sp

from nmfmerge import (
    Editor,
    NMFMerge,
    merge_components,
    metrics,
    nmf,
    nmf_merge,
    rank_path,
    recover_components,
    transform,
)
from nmfmerge.method.init import INITS
from nmfmerge.solvers import SOLVERS

SECONDS = 60  # after which a call counts as hung

VALUES = {
    "uniform": lambda rng, m, n: rng.random((m, n)),
    "exact": lambda rng, m, n: rng.random((m, 2)) @ rng.random((2, n)),
    "zero": lambda rng, m, n: np.zeros((m, n)),
    "constant": lambda rng, m, n: np.full((m, n), rng.choice([1.0, 7.0, 1e-8, 1e8])),
    "one entry": lambda rng, m, n: _one_entry(rng, m, n),
    "duplicates": lambda rng, m, n: rng.random((m, n))[rng.integers(0, max(1, m // 3), m)],
    "counts": lambda rng, m, n: rng.poisson(0.7, (m, n)).astype(float),
    "sparse": lambda rng, m, n: rng.random((m, n)) * (rng.random((m, n)) < 0.15),
    "zero lines": lambda rng, m, n: _zero_lines(rng, m, n),
    "one in a row": lambda rng, m, n: np.eye(n)[rng.integers(0, n, m)],
    "huge": lambda rng, m, n: rng.random((m, n)) * 1e300,
    "tiny": lambda rng, m, n: rng.random((m, n)) * 1e-300,
    "denormal": lambda rng, m, n: rng.random((m, n)) * 5e-320,
    "wide range": lambda rng, m, n: 10.0 ** rng.uniform(-12, 12, (m, n)),
    "widest range": lambda rng, m, n: 10.0 ** rng.uniform(-140, 140, (m, n)),
    "outlier": lambda rng, m, n: _outlier(rng, m, n),
    "blocks": lambda rng, m, n: np.where(np.arange(m)[:, None] < m / 2, 2.0, 1.0) + np.zeros(n),
    "negative zero": lambda rng, m, n: np.where(rng.random((m, n)) < 0.5, -0.0, 1.0),
    "nan": lambda rng, m, n: _with(rng, m, n, np.nan),
    "holes": lambda rng, m, n: _holes(rng, m, n),
    "infinity": lambda rng, m, n: _with(rng, m, n, np.inf),
    "negative": lambda rng, m, n: _with(rng, m, n, -1e-300),
}
WEIGHTS = {
    "none": lambda rng, m, n: None,
    "some": lambda rng, m, n: rng.random((m, n)) * (rng.random((m, n)) < 0.8),
    "zero or one": lambda rng, m, n: rng.random((m, n)) < 0.7,
    "equal": lambda rng, m, n: np.full((m, n), rng.choice([1.0, 3.0, 1e-200, 1e200])),
    "of rows": lambda rng, m, n: 0.1 + rng.random((m, 1)),
    "of columns": lambda rng, m, n: rng.integers(0, 3, (1, n)),
    "wide range": lambda rng, m, n: 10.0 ** rng.uniform(-6, 6, (m, n)),
    "sparse": lambda rng, m, n: sp.csc_array(rng.random((m, n)) * (rng.random((m, n)) < 0.4)),
}
REFUSALS_OF_UNEVEN = (
    "no observed entry", "missing values", "weights is zero everywhere", "does not minimise"
)  # fmt: skip
# Under Kullback–Leibler sums are far above the divergence or have few digits themselves, or the
# margins explain X, and 100 % is rounding.
LOSING_DIGITS = ("outlier", "widest range", "denormal", "blocks", "constant")
BAD_VALUES = ("infinity", "negative")

KINDS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": lambda A: np.repeat(np.repeat(A, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda A: np.ascontiguousarray(A[::-1, ::-1])[::-1, ::-1],
    "read only": lambda A: _read_only(A),
    "float32": lambda A: A.astype(np.float32),
    "float16": lambda A: A.astype(np.float16),
    "long double": lambda A: A.astype(np.longdouble),
    "big endian": lambda A: A.astype(">f8"),
    "boolean": lambda A: A > 0.5,
    "int8": lambda A: np.nan_to_num(np.clip(A, 0, 100)).astype(np.int8),
    "uint64": lambda A: np.nan_to_num(np.clip(A, 0, 100)).astype(np.uint64),
    "list": lambda A: A.tolist(),
    "frame": pd.DataFrame,
    "nullable frame": lambda A: pd.DataFrame(A).astype("Float64"),
    "masked, nothing hidden": np.ma.masked_array,
    "csr": sp.csr_array,
    "csr matrix": sp.csr_matrix,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "lil": sp.lil_matrix,
    "csr float32": lambda A: sp.csr_array(A.astype(np.float32)),
    "csr unsorted": lambda A: _unsorted(sp.csr_array(A)),
    "csr with duplicates": lambda A: _with_duplicates(sp.csr_array(A)),
    "csr with long indices": lambda A: _long_indices(sp.csr_array(A)),
    "csr with zeros stored": lambda A: _stored_zeros(A),
}
BAD_KINDS = {
    "complex": lambda A: A + 0j,
    "object": lambda A: A.astype(object),
    "text": lambda A: A.astype(str),
    "one dimension": lambda A: A.ravel(),
    "three dimensions": lambda A: A[None],
    "scalar": lambda A: 3.0,
    "none": lambda A: None,
    "csr with an index too large": lambda A: _bad_index(sp.csr_array(A + 1), 10**6),
    "csr with a negative index": lambda A: _bad_index(sp.csr_array(A + 1), -1),
    "csr with starts that go back": lambda A: _bad_starts(sp.csr_array(A + 1)),
}


def fuzz(cases, seed):
    """Run so many cases, print those that fail, and return their number."""
    failures = 0
    for i in range(cases):
        try:
            with _time_limit():
                run_case(seed, i)
        except Exception:
            failures += 1
            print(f"api case {i} of seed {seed}: {describe(seed, i)}\n{traceback.format_exc()}")
        if (i + 1) % 5000 == 0:
            print(f"{i + 1:,} cases, {failures} failed", flush=True)
    return failures


def describe(seed, i):
    """The words of a case."""
    case = _draw(seed, i)
    options = {name: value for name, value in case["options"].items() if name != "weights"}
    return {name: value for name, value in case.items() if name != "X"} | {
        "shape": np.shape(case["X"]), "options": options
    }  # fmt: skip


def run_case(seed, i):
    """One call, or two equal ones, checked."""
    case = _draw(seed, i)
    X, call, options = case["X"], CALLS[case["call"]], case["options"]
    before = None if case["bad"] else _copy(X)
    refusal, results = None, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results = [call(X, case["r"], **options) for _ in range(2)]
        except (ValueError, TypeError) as error:
            refusal = error
    if refusal is not None:
        why = str(refusal)
        missing = case["uneven"] and any(word in why for word in REFUSALS_OF_UNEVEN)
        if not (case["bad"] or missing or case["r"] > min(np.shape(X))):
            raise AssertionError("refused") from refusal
        assert len(str(refusal)) > 15, f"says nothing: {refusal!r}"
        return
    assert not case["bad"], "accepted"
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)
    single = ("float32", "csr float32") + ("float16",) * (case["call"] != "estimator")
    _check_factors(X, case["r"], *results[0][:2], case["kind"] in single)
    _assert_same(X, before)


def _draw(seed, i):
    rng = np.random.default_rng([seed, i])
    m, n = rng.integers(1, 31, 2)
    if rng.random() < 0.15:
        m, n = rng.integers(60, 151, 2)
    if rng.random() < 0.1:
        m, n = (1, n) if rng.random() < 0.5 else (m, 1)
    values = str(rng.choice(list(VALUES)))
    bad_kind = rng.random() < 0.1
    kind = str(rng.choice(list(BAD_KINDS if bad_kind else KINDS)))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        A = VALUES[values](rng, int(m), int(n))
        X = (BAD_KINDS if bad_kind else KINDS)[kind](A)
    options = {
        "solver": str(rng.choice(list(SOLVERS))),
        "init": str(rng.choice(list(INITS))),
        "tol": float(rng.choice([0, 1e-6, 1e-3, 0.1])),
        "max_iter": int(rng.choice([1, 2, 15])),
        "n_init": int(rng.choice([1, 2, 4])),
        "random_state": int(rng.integers(0, 100)),
    }
    call = str(rng.choice(list(CALLS)))
    if call in ("nmf_merge", "estimator") and rng.random() < 0.5:
        options["n_extra"] = int(rng.integers(0, 12))
    r = int(rng.integers(1, min(m, n) + 2 if rng.random() < 0.1 else min(m, n, 8) + 1))
    hidden = kind in ("boolean", "int8", "uint64")  # these conversions mend what is bad
    plain = call == "estimator" and kind in ("object", "text")  # which scikit-learn converts
    bad = (bad_kind and not plain) or (values in BAD_VALUES and not hidden)
    if kind in ("float16", "float32", "csr float32"):
        bad = bool(np.isinf(X.data if sp.issparse(X) else X).any())  # a tiny −1 becomes −0
    weights, uneven = "none", values in ("nan", "holes")
    if not (bad or bad_kind or values in BAD_VALUES):
        if values not in LOSING_DIGITS:
            options["beta_loss"] = str(rng.choice(["frobenius", "frobenius", "kullback-leibler"]))
        if rng.random() < 0.3:
            weights = str(rng.choice(list(WEIGHTS)))
            options["weights"] = WEIGHTS[weights](rng, int(m), int(n))
        if sp.issparse(X) and rng.random() < 0.2:
            options["missing"] = "zeros"
        uneven |= len(options.keys() & {"weights", "missing"}) > 0
        uneven |= options.get("beta_loss") == "kullback-leibler"
        if uneven and rng.random() < 0.9:
            options["solver"] = str(rng.choice(["accelerated", "mu"]))
    return {"X": X, "values": values, "kind": kind, "call": call, "r": r, "options": options,
            "weights": weights, "uneven": uneven, "bad": bad}  # fmt: skip


def _objective(options):
    """The options that metrics and single steps take, too."""
    return {name: options[name] for name in ("weights", "missing", "beta_loss") if name in options}


def _steps(X, r, **options):
    """The single steps one after another: fit, recover, merge, transform."""
    start, own = nmf(X, r, **options), _objective(options)
    room = min(start.W.shape[0], start.H.shape[1]) - r
    W, H = start.W, start.H
    if room > 0:
        W, H, _ = recover_components(X, W, H, min(room, 3), **own)
    W, H, tree = merge_components(W, H, r, beta_loss=start.loss)
    assert tree.n_components == r
    return transform(X, H, **own), H, np.array(metrics.kkt_residual(X, W, H, **own))


def _fit(function):
    def call(X, r, **options):
        result = function(X, r, **options)
        expected = metrics.fitting_error(X, result.W, result.H, **_objective(options))
        np.testing.assert_allclose(result.fitting_error, expected, rtol=1e-5, atol=1e-9)
        _check_starts(result, options["n_init"])
        return result.W, result.H, np.array(result.fitting_error)

    return call


def _check_starts(result, n_init):
    assert len(result.starts) == (n_init if n_init > 1 else 0)
    for start in result.starts:
        assert start.fitting_error >= result.fitting_error
        assert start.similarity.shape == (result.n_components,)
        assert (start.similarity <= 1 + 1e-5).all()
        assert (start.similarity >= 0).all()
        assert np.isfinite([start.subspace_mismatch, start.permutation_mismatch]).all()
    if result.starts:
        assert result.starts[result.best_start].fitting_error == result.fitting_error
        for F, spread in ((result.W, result.spread.W), (result.H, result.spread.H)):
            assert F.shape == spread.shape
            assert np.isfinite(spread).all()


def _estimator(X, r, **options):
    weights = {"weights": options.pop("weights", None)}
    model = NMFMerge(r, **options)
    W = model.fit_transform(X, **weights)
    np.testing.assert_array_equal(model.transform(X, **weights), W)
    return W, model.components_, np.array(model.reconstruction_err_)


def _held(X, r, **options):
    """A loose fit, then one that holds some of its components."""
    start = nmf(X, r, **options)
    rng = np.random.default_rng(options["random_state"])
    hold = {side: np.flatnonzero(rng.random(r) < 0.4) for side in "WH"}
    again = options | {"init": (start.W, start.H)}
    result = nmf(X, r, **again, hold=hold)
    np.testing.assert_array_equal(result.W[:, hold["W"]], start.W[:, hold["W"]])
    np.testing.assert_array_equal(result.H[hold["H"]], start.H[hold["H"]])
    first = range(int(rng.integers(0, r + 1)))
    merged = nmf_merge(X, r, **again, hold=first)
    np.testing.assert_array_equal(merged.W[:, first], start.W[:, first])
    return result.W, result.H, merged.W, merged.H


def _edited(X, r, **options):
    """Edits of every kind; previews tell what they do, and as many undos lead back."""
    start = nmf(X, r, **options)
    keep = ("weights", "missing", "max_iter", "solver")
    editor = Editor(X, start, **{name: options[name] for name in keep if name in options})
    rng = np.random.default_rng(options["random_state"])
    for _ in range(4):
        r_now = editor.n_components
        i, j = (int(t) for t in rng.integers(0, r_now, 2))
        edit = [("merge", i, j), ("remove", i), ("split", i), ("add", 1), ("hold", i), ("polish",)][
            int(rng.integers(0, 6))
        ]
        try:
            preview = editor.preview(*edit)
        except ValueError:  # a pair of one, a held component, no room for one more
            continue
        after = getattr(editor, edit[0])(*edit[1:]).fitting_error
        np.testing.assert_allclose(preview.after, after, rtol=1e-9, atol=1e-290)
    last = editor.result()
    while editor.can_undo:
        editor.undo()
    np.testing.assert_array_equal(editor.result().W, start.W)
    return start.W, start.H, last.W, last.H


def _path(X, r, **options):
    """A few ranks up to r: the error never rises with rank, the assessed rank is among them."""
    keep = {name: options[name] for name in ("solver", "tol", "max_iter", "random_state")}
    path = rank_path(X, r, max(1, r - 4), **keep, **_objective(options))
    errors = path.fitting_errors  # infinite where margins explain X, and the fit does not yet
    assert (errors[1:] <= errors[:-1]).all(), errors
    assert path.assess().rank in (None, *path)
    return path[r].W, path[r].H, path.fitting_errors, path.penalties


CALLS = {
    "path": _path,
    "nmf": _fit(nmf),
    "nmf_merge": _fit(nmf_merge),
    "held": _held,
    "edited": _edited,
    "steps": _steps,
    "estimator": _estimator,
}


def _check_factors(X, r, W, H, single):
    m, n = X.shape if hasattr(X, "shape") else np.shape(X)
    assert W.shape == (m, r)
    assert H.shape == (r, n)
    for F in (W, H):
        assert F.dtype == (np.float32 if single else np.float64)
        assert np.isfinite(F).all()
        assert F.min(initial=0) >= 0


def _copy(X):
    return X.copy() if hasattr(X, "copy") else X


def _assert_same(X, before):
    if sp.issparse(X):
        for name in ("indptr", "indices", "data"):
            if hasattr(X, name) and X.format in ("csr", "csc"):
                np.testing.assert_array_equal(getattr(X, name), getattr(before, name))
    else:
        own, other = (
            A.astype(str) if A.dtype == object else A for A in map(np.asarray, (X, before))
        )  # NaN in objects is equal to nothing
        np.testing.assert_array_equal(own, other)


@contextmanager
def _time_limit():
    def hung(*_):
        raise TimeoutError(f"not done after {SECONDS} s")

    previous = signal.signal(signal.SIGALRM, hung)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def _one_entry(rng, m, n):
    A = np.zeros((m, n))
    A[rng.integers(m), rng.integers(n)] = rng.choice([1, 1e-10, 1e10, 3.3])
    return A


def _zero_lines(rng, m, n):
    A = rng.random((m, n))
    A[::2], A[:, ::3] = 0, 0
    return A


def _outlier(rng, m, n):
    return _with(rng, m, n, rng.choice([1e8, 1e15, 1e30, 1e100]))


def _with(rng, m, n, value):
    A = rng.random((m, n))
    A[rng.integers(m), rng.integers(n)] = value
    return A


def _holes(rng, m, n):
    """Some share of the entries is missing; each line has one, where that can be."""
    A = np.where(rng.random((m, n)) < 0.9 * rng.random(), np.nan, rng.random((m, n)))
    lines = np.arange(max(m, n))
    A[lines % m, lines % n] = rng.random(len(lines))
    return A


def _read_only(A):
    A = A.copy()
    A.flags.writeable = False
    return A


def _unsorted(X):
    """The entries of each row in falling order of their columns."""
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        X.indices[start:stop] = X.indices[start:stop][::-1].copy()
        X.data[start:stop] = X.data[start:stop][::-1].copy()
    X.has_sorted_indices = False
    return X


def _with_duplicates(X):
    """Each entry stored in two halves."""
    data, indices = np.repeat(X.data / 2, 2), np.repeat(X.indices, 2)
    return sp.csr_array((data, indices, 2 * X.indptr), shape=X.shape)


def _long_indices(X):
    long = sp.csr_array(X.shape, dtype=X.dtype)
    long.data, long.indices, long.indptr = X.data, X.indices.astype("i8"), X.indptr.astype("i8")
    return long


def _stored_zeros(A):
    X = sp.csr_array(np.ones_like(A))
    X.data[:] = A.ravel()
    return X


def _bad_index(X, index):
    X.indices[len(X.indices) // 2] = index
    return X


def _bad_starts(X):
    X.indptr[len(X.indptr) // 2] = X.indptr[-1] + 5
    return X
