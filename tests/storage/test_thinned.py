from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import nmf
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.metrics import shares
from nmfmerge.report import warnings_of
from nmfmerge.results.about import About
from nmfmerge.storage import thinned
from nmfmerge.storage.folder import Fit

M, N, R = 4000, 30, 4


def make(tmp_path, name, repeats=1):
    """A fit whose long side repeats that of another one, mapped from a file."""
    rng = np.random.default_rng(0)
    X = rng.random((M // repeats, R)) @ rng.random((R, N)) + 0.1 * rng.random((M // repeats, N))
    X = X if name == "W" else X.T
    few = nmf(X, R, tol=1e-3)
    axes = [Axis("row", np.arange(X.shape[0])), Axis("column", np.arange(X.shape[1]))]
    one = Fit(few, Dataset("few", None, None, *axes), About(title="few"))
    F = np.repeat(getattr(few, name), repeats, axis="WH".index(name))
    np.save(tmp_path / "F.npy", F)
    mapped = np.load(tmp_path / "F.npy", mmap_mode="r")
    many = replace(few, objective=repeats * few.objective, **{name: mapped})
    axes["WH".index(name)] = Axis("place", np.arange(M))
    return one, Fit(many, Dataset("many", None, None, *axes), About(title="many"))


@pytest.mark.parametrize("name", ["W", "H"])
def test_pages_are_those_of_the_rows_that_are_left(tmp_path, monkeypatch, name):
    monkeypatch.setattr(thinned, "_MOST", 400)
    one, many = make(tmp_path, name, repeats=10)
    found = thinned.thinned(many)
    for factor in "WH":
        np.testing.assert_array_equal(getattr(found.result, factor), getattr(one.result, factor))
    assert found.result.objective == pytest.approx(one.result.objective)
    assert warnings_of(found.result) == warnings_of(one.result)
    np.testing.assert_allclose(
        shares(found.result.W, found.result.H), shares(one.result.W, one.result.H)
    )
    side = found.data.rows if name == "W" else found.data.columns
    np.testing.assert_array_equal(side.values, np.arange(0, M, 10))
    assert found.about.shape == ([M, N] if name == "W" else [N, M])
    assert "one in 10 of them" in found.about.notes[-1]
    assert not isinstance(getattr(found.result, name), np.memmap)


def test_what_can_be_drawn_is_left_whole(tmp_path):
    _, many = make(tmp_path, "W")
    found = thinned.thinned(many)
    np.testing.assert_array_equal(found.result.W, many.result.W)
    assert found.about.notes == []
    one = replace(many, result=replace(many.result, W=np.array(many.result.W)))
    assert thinned.thinned(one) is one
