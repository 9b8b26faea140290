"""What makes two runs the same: their settings, their data and the version of what is computed."""

import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.solvers import SOLVERS
from reproduce import runs
from reproduce.runs import NUMERICS, Run, data_digest, identity
from reproduce.sets import matrix

RUN = Run("melody", "merge", 3, 1, loose=1e-2)


@pytest.fixture(autouse=True)
def forget():
    """Identities are computed once a process; here what they follow from changes."""
    yield
    identity.cache_clear()
    data_digest.cache_clear()


def test_every_setting_is_part_of_it():
    other = {"data": "lcms_like", "method": "nmf", "solver": "gcd", "init": "nndsvd", "rank": 4,
             "extra": 2, "seed": 1, "tol": 1.0000001e-4, "loose": 1e-3}  # fmt: skip
    assert other.keys() == {field.name for field in fields(Run)}
    others = [replace(RUN, **{name: value}) for name, value in other.items()]
    assert len({identity(run) for run in [RUN, *others]}) == len(others) + 1


def test_it_is_the_same_in_another_process_and_computes_nothing():
    """A digest of what a solver gave would depend on how its machine code came about."""
    code = (
        "import nmfmerge, numba\n"
        "nmfmerge.nmf = nmfmerge.nmf_merge = None\n"
        "from reproduce.runs import Run, identity\n"
        "print(identity(Run('melody', 'merge', 3, 1, loose=1e-2)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == identity(RUN)


def test_raising_the_version_of_a_solver_makes_its_runs_other_runs(monkeypatch):
    gcd = replace(RUN, solver="gcd")
    before = identity(RUN), identity(gcd)
    monkeypatch.setitem(NUMERICS, "hals", NUMERICS["hals"] + 1)
    identity.cache_clear()
    assert identity(RUN) != before[0]
    assert identity(gcd) == before[1]


def test_every_solver_has_a_version():
    assert NUMERICS.keys() == SOLVERS.keys()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csc_array])
def test_every_entry_of_the_data_is_part_of_it(kind, monkeypatch):
    X = matrix("melody")
    changed = X.copy()
    changed[-1, -1] = np.nextafter(X[-1, -1], np.inf)
    found = set()
    for content in (X, changed, X[::-1].copy()):
        monkeypatch.setattr(runs, "matrix", lambda name, content=content: kind(content))
        identity.cache_clear()
        data_digest.cache_clear()
        found.add(identity(RUN))
    assert len(found) == 3
