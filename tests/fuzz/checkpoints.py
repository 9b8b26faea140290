"""Checkpoints that are damaged, forged, or of other data and settings.

Every one must be refused with a ValueError that names it, or lead to exactly the bits of the run
that was never interrupted.
"""

import io
import json
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import scipy.sparse as sp

from nmfmerge import nmf, nmf_merge
from nmfmerge.storage.checkpoint import Checkpoint, _checksum

N_COMPONENTS = 3


@dataclass
class Run:
    """A run, its checkpoints at several moments, and its uninterrupted result."""

    function: object
    X: object
    settings: dict
    result: object
    files: list

    def __str__(self):
        kind = self.X.format if sp.issparse(self.X) else "dense"
        return f"{self.function.__name__}, {kind} {self.X.dtype}, {self.settings}"

    def resume(self, path, X=None, **changed):
        X = self.X if X is None else X
        call = {"n_components": N_COMPONENTS, "checkpoint": path, **self.settings, **changed}
        return self.function(X, **call)


def fuzz(cases, seed):
    """Run cases; print those that fail, and return their number."""
    failures, kinds = 0, Counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "run.npz"
        runs = make_runs(path)
        for case in range(cases):
            rng = np.random.default_rng([seed, case])
            run = runs[rng.integers(len(runs))]
            name, attack = list(ATTACKS.items())[rng.integers(len(ATTACKS))]
            path.unlink(missing_ok=True)
            verdict = judge(run, attack, rng, path)
            kinds[name, verdict] += 1
            if verdict not in ("refused", "same bits"):
                failures += 1
                print(f"seed {seed}, case {case}: {name} of {run}: {verdict}", flush=True)
    for (name, verdict), count in sorted(kinds.items()):
        print(f"  {name:<20} {verdict:<10} {count}")
    return failures


def judge(run, attack, rng, path):
    """What became of one case."""
    healthy = run.files[rng.integers(len(run.files))]
    try:
        call = attack(run, healthy, rng, path)
        result = call()
    except ValueError as error:
        if f"checkpoint {str(path)!r}" in str(error) or "in the checkpoint" in str(error):
            return "refused"
        return f"unclear message: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "same bits" if same(result, run.result) else "other bits"


def same(result, whole):
    """Whether two results are the same to the bit, but for their times."""

    def key(found):
        return (
            found.W.tobytes(), found.H.tobytes(), found.fitting_error, found.status,
            [(s.name, s.n_components, s.n_iter, s.fitting_error, s.status) for s in found.stages],
            found.generalized_singular_values.tobytes(),
            None if found.merges is None else (found.merges.pairs.tolist(), found.merges.n_leaves),
            [(s.seed, s.fitting_error, s.n_iter, s.status) for s in found.starts],
        )  # fmt: skip

    return key(result) == key(whole)


def make_runs(path):
    """Runs of several functions, solvers, starts and kinds of data, saved at every iteration."""
    rng = np.random.default_rng(0)
    X = rng.random((12, 4)) @ rng.random((4, 9)) + 0.1 * rng.random((12, 9))
    thin = X * (rng.random(X.shape) < 0.4)
    runs = []
    for function, kind, solver, init, n_init in (
        (nmf_merge, X, "accelerated", "nndsvd", 4),
        (nmf_merge, X.astype(np.float32), "accelerated", "random", 1),
        (nmf_merge, sp.csr_array(thin), "hals", "random", 3),
        (nmf, sp.csc_array(thin), "gcd", "nndsvda", 2),
        (nmf, np.asfortranarray(X), "accelerated", "random", 3),
        (nmf_merge, X, "mu", "random", 1),
        (nmf, X, "alspgrad", "random", 1),
    ):
        settings = {"solver": solver, "init": init, "n_init": n_init, "random_state": 1,
                    "tol": 1e-3}  # fmt: skip
        files = []

        def keep(_, files=files):
            if path.exists():
                files.append(path.read_bytes())

        with mock.patch.object(Checkpoint, "due", return_value=True):
            path.unlink(missing_ok=True)
            function(kind, N_COMPONENTS, checkpoint=path, callback=keep, **settings)
        files = [files[i] for i in np.unique(np.geomspace(1, len(files), 12).astype(int) - 1)]
        result = function(kind, N_COMPONENTS, **settings)
        runs.append(Run(function, kind, settings, result, [*files, path.read_bytes()]))
    return runs


def untouched(run, healthy, rng, path):
    """A sound checkpoint, of data that may lie otherwise in memory."""
    path.write_bytes(healthy)
    X = run.X
    if not sp.issparse(X) and run.X.flags.c_contiguous:
        X = np.repeat(X, 2, axis=1)[:, ::2]  # made contiguous in C order
    return lambda: run.resume(path, X)


def flipped(run, healthy, rng, path):
    """Some bytes are other ones."""
    content = bytearray(healthy)
    for at in rng.integers(len(content), size=rng.choice([1, 2, 4, 64])):
        content[at] ^= int(rng.integers(1, 256))
    path.write_bytes(content)
    return lambda: run.resume(path)


def cut(run, healthy, rng, path):
    """A part is missing, twice there, zero, or in another place."""
    start, stop = np.sort(rng.integers(len(healthy) + 1, size=2))
    before, part, after = healthy[:start], healthy[start:stop], healthy[stop:]
    path.write_bytes(
        [before, after, before + after, before + part + part + after,
         before + bytes(len(part)) + after, after + part + before][rng.integers(6)]
    )  # fmt: skip
    return lambda: run.resume(path)


def edited(run, healthy, rng, path):
    """An entry is changed, and the checksum is not."""
    arrays = entries(healthy)
    name = rng.choice(sorted(arrays))
    _change(arrays, name, rng)
    write(path, arrays)
    return lambda: run.resume(path)


def spliced(run, healthy, rng, path):
    """An entry is that of another moment of the same run."""
    arrays, others = (entries(file) for file in (healthy, run.files[rng.integers(len(run.files))]))
    name = rng.choice(sorted(others))
    arrays[name] = others[name]
    write(path, arrays)
    return lambda: run.resume(path)


def forged(run, healthy, rng, path):
    """An entry is impossible, and the checksum is right: must be refused all the same."""
    arrays = entries(healthy)
    record = json.loads(str(arrays.pop("record")))
    arrays.pop("checksum")
    fault = FAULTS[rng.integers(len(FAULTS))]
    fault(record, arrays, rng)
    arrays["record"] = np.array(json.dumps(record))
    arrays["checksum"] = np.array(_checksum(arrays))
    write(path, arrays)

    def call():
        run.resume(path)
        raise AssertionError(f"{fault.__name__} was not seen")

    return call


def _impossible_value(record, arrays, rng):
    name = _any_factor(arrays, rng)
    F = arrays[name] = arrays[name].copy()
    F[tuple(rng.integers(F.shape))] = rng.choice([np.nan, -1.0, np.inf])


def _other_type(record, arrays, rng):
    name = _any_factor(arrays, rng)
    arrays[name] = arrays[name].astype(rng.choice(["f2", "c16", "i8", "U30"]))


def _other_shape(record, arrays, rng):
    name = _any_factor(arrays, rng)
    F = arrays[name]
    arrays[name] = [F[:, :-1], F[:-1], F.ravel(), F[None], np.tile(F, 2)][rng.integers(5)]


def _missing_entry(record, arrays, rng):
    del arrays[rng.choice(sorted(arrays))]


def _missing_factor(record, arrays, rng):
    name = rng.choice([name for name in arrays if name.endswith((": state Wt", ": state H"))])
    del arrays[name]
    record["arrays"].remove(name)


def _impossible_history(record, arrays, rng):
    name = rng.choice([name for name in arrays if "history" in name or name.endswith(" loop")])
    A = arrays[name]
    arrays[name] = [A[:2], A.T, A[:, :0].astype("f4"), -1 - A, A.astype("U30")][rng.integers(5)]


def _impossible_number(record, arrays, rng):
    key = rng.choice(["elapsed", "courses", "stage_seconds", "starts"])
    where = record if key in record else _any_course(record, rng)
    where[key] = [7, -1, "x", {}, float("nan"), [1]][rng.integers(6)]


def _missing_number(record, arrays, rng):
    where = [record, _any_course(record, rng)][rng.integers(2)]
    del where[rng.choice(sorted(where))]


def _impossible_stage(record, arrays, rng):
    starts = _any_course(record, rng)["starts"]
    start = starts[rng.integers(len(starts))]
    if start["stages"] and rng.random() < 0.8:
        stage = start["stages"][rng.integers(len(start["stages"]))]
        stage[rng.choice(sorted(stage))] = [None, -1, {}, "x"][rng.integers(4)]
    else:
        start["stages"] = ["x", [1], None, [{}], 7][rng.integers(5)]


def _impossible_loop(record, arrays, rng):
    course = _any_course(record, rng)
    if course["loop"] is None:
        course["loop"] = [7, "x", [], {}, True][rng.integers(5)]
    else:
        key = rng.choice(["statuses", "phases"])
        values = course["loop"][key]
        course["loop"][key] = [
            None, 3, "x", values[:-1], [*values, 0], [*values[:-1], "x"], [*values[:-1], 7],
        ][rng.integers(7)]  # fmt: skip


def _impossible_number_of_a_start(record, arrays, rng):
    names = [name for name, A in arrays.items() if " solver " in name and A.ndim == 0]
    names += [name for name in arrays if name.endswith(": fallback value")]
    name = rng.choice(names)
    A = arrays[name]
    arrays[name] = [A.astype("U30"), np.stack([A, A]), np.full_like(A, np.nan, dtype=float)][
        rng.integers(3)
    ]


def _any_factor(arrays, rng):
    return rng.choice(
        [
            name
            for name, A in arrays.items()
            if (": state " in name or " solver " in name) and A.ndim > 1
        ]
    )


def _any_course(record, rng):
    """One of the courses that have begun."""
    begun = [course for course in record["courses"] if course is not None]
    return begun[rng.integers(len(begun))]


FAULTS = [
    _impossible_value,
    _other_type,
    _other_shape,
    _missing_entry,
    _missing_factor,
    _impossible_history,
    _impossible_number,
    _missing_number,
    _impossible_stage,
    _impossible_loop,
    _impossible_number_of_a_start,
]


def other_data(run, healthy, rng, path):
    """The data are other ones, of the same shape and often the same norm."""
    path.write_bytes(healthy)
    X = run.X.toarray() if sp.issparse(run.X) else np.array(run.X)
    i, j = rng.integers(X.shape[0]), rng.integers(X.shape[1])
    choice = rng.integers(6)
    if choice == 0:
        X = X[::-1]
    elif choice == 1:
        X = X[:, rng.permutation(X.shape[1])]
    elif choice == 2:
        X[i, j] = np.nextafter(X[i, j], X.dtype.type(9))
    elif choice == 3:
        X = X.astype(np.float64 if X.dtype == np.float32 else np.float32)
    elif choice == 4:
        X[[0, -1], [0, -1]] = X[[-1, 0], [-1, 0]]
    else:
        X = 4.0 * X
    other = X if not sp.issparse(run.X) else run.X.__class__(X)
    return lambda: run.resume(path, other)


def other_settings(run, healthy, rng, path):
    """One setting is another one."""
    path.write_bytes(healthy)
    changes = [
        {"n_components": 2}, {"random_state": 2}, {"tol": 1e-4}, {"init": "nndsvdar"},
        {"n_init": run.settings["n_init"] + 1},
        {"solver": "gcd" if run.settings["solver"] != "gcd" else "mu"},
        {"init": (np.ones((12, 3)), np.ones((3, 9)))},
    ]  # fmt: skip
    if run.function is nmf_merge:
        changes += [{"n_extra": 2}, {"tol_intermediate": 0.1}]
    changed = changes[rng.integers(len(changes))]
    return lambda: run.resume(path, **changed)


ATTACKS = {
    "untouched": untouched,
    "flipped bytes": flipped,
    "cut": cut,
    "edited entry": edited,
    "spliced entry": spliced,
    "forged entry": forged,
    "other data": other_data,
    "other settings": other_settings,
}


def entries(content):
    with np.load(io.BytesIO(content)) as archive:
        return {name: archive[name] for name in archive.files}


def write(path, arrays):
    with open(path, "wb") as file:
        np.savez(file, **arrays)


def _change(arrays, name, rng):
    """Change one entry in value, type or shape, or drop it, or add one."""
    A = arrays[name]
    choice = rng.integers(5)
    if choice == 0:
        del arrays[name]
    elif choice == 1:
        arrays[name + "x"] = A
    elif choice == 2:
        arrays[name] = A.astype(str if A.dtype.kind == "f" else object).astype("U40")
    elif choice == 3:
        arrays[name] = np.concatenate([np.atleast_1d(A)] * 2)
    elif A.size and A.dtype.kind == "f":
        arrays[name] = A = A.copy()
        A.flat[rng.integers(A.size)] += rng.choice([1e-9, 1.0, -1.0, np.nan])
    else:
        arrays[name] = np.array("{}")
