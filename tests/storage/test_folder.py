"""The folder of a fit from several starts: written, read back, and refused where it is damaged."""

import csv
import json

import numpy as np
import pytest

from nmfmerge import datasets, nmf, nmf_merge
from nmfmerge.storage import folder
from nmfmerge.storage.folder import Fit, FolderError

DATA = datasets.lcms_like(30, 40, 4)


@pytest.fixture(scope="module", params=[np.float64, np.float32])
def result(request):
    X = DATA.X.astype(request.param)
    return nmf_merge(X, 4, init=["nndsvd", "random", (DATA.W, DATA.H)])


@pytest.fixture
def written(result, tmp_path):
    folder.write(tmp_path / "fit", Fit(result, DATA))
    return tmp_path / "fit"


def test_starts_and_spread_come_back(result, written):
    again = folder.read(written).result
    assert again.best_start == result.best_start
    assert [start.init for start in again.starts] == ["nndsvd", "random", "given"]
    for one, other in zip(again.starts, result.starts, strict=True):
        values, expected = vars(one).copy(), vars(other).copy()
        np.testing.assert_array_equal(values.pop("similarity"), expected.pop("similarity"))
        assert values == expected
    for name in ("W", "H"):
        F, expected = getattr(again.spread, name), getattr(result.spread, name)
        np.testing.assert_array_equal(F, expected)
        assert F.dtype == expected.dtype == result.W.dtype
    assert repr(again) == repr(result)


def test_starts_are_a_table_to_read(result, written):
    with open(written / "starts.csv", newline="") as opened:
        table = list(csv.DictReader(opened))
    assert [row["start"] for row in table] == ["1", "2", "3"]
    for row, start in zip(table, result.starts, strict=True):
        assert row["init"] == start.init
        assert row["seed"] == ("" if start.seed is None else str(start.seed))
        assert float(row["fitting error (%)"]) == pytest.approx(start.fitting_error, rel=1e-8)
        assert int(row["iterations"]) == start.n_iter
        assert row["status"] == start.status
        assert int(row["components found"]) == np.sum(start.similarity >= 0.9)


def test_one_start_leaves_no_table(tmp_path):
    folder.write(tmp_path / "fit", Fit(nmf(DATA.X, 4), DATA))
    assert not (tmp_path / "fit/starts.csv").exists()
    again = folder.read(tmp_path / "fit").result
    assert (again.starts, again.best_start, again.spread) == ((), 0, None)


def test_a_folder_from_before_there_were_several_starts_opens(result, written):
    about = json.loads((written / "fit.json").read_text())
    del about["result"]["starts"], about["result"]["best_start"]
    (written / "fit.json").write_text(json.dumps(about))
    change(written, "factors", lambda arrays: (arrays.pop("spread W"), arrays.pop("spread H")))
    change(written, "history", lambda arrays: arrays.pop("similarity"))
    (written / "starts.csv").unlink()
    again = folder.read(written).result
    np.testing.assert_array_equal(again.W, result.W)
    assert (again.starts, again.spread) == ((), None)


def change(written, name, how):
    """Change the arrays of a file."""
    with np.load(written / f"{name}.npz") as archive:
        arrays = dict(archive)
    how(arrays)
    np.savez(written / f"{name}.npz", **arrays)


@pytest.mark.parametrize(
    ("name", "value"),
    [("fitting_error", -1), ("fitting_error", "1"), ("fitting_error", float("nan")),
     ("n_iter", 1.5), ("n_iter", -1), ("seed", -1), ("seed", "x"), ("init", 3), ("init", None),
     ("status", "fine"), ("subspace_mismatch", -1), ("permutation_mismatch", None)],
)  # fmt: skip
def test_damaged_numbers_of_a_start_are_refused(written, name, value):
    about = json.loads((written / "fit.json").read_text())
    about["result"]["starts"][1][name] = value
    (written / "fit.json").write_text(json.dumps(about))
    with pytest.raises(FolderError, match="is damaged"):
        folder.read(written)


@pytest.mark.parametrize(
    ("where", "name", "value", "message"),
    [("result", "n_leaves", 10**9, "the merges of 1000000000 components leave"),
     ("result", "n_leaves", 10**30, "the merges of"),
     ("result", "merge_ids", [0, 1, 2, 10**9], "do not lead to the components"),
     ("result", "seconds", 10**400, "too large"),
     ("data", "image_shape", [10**9, -1], "pictures have the shape"),
     ("data", "image_shape", [1.0, 30], "pictures have the shape")],
    ids=str,
)  # fmt: skip
def test_sizes_that_the_arrays_do_not_have_are_refused(written, where, name, value, message):
    about = json.loads((written / "fit.json").read_text())
    about[where][name] = value
    (written / "fit.json").write_text(json.dumps(about))
    with pytest.raises(FolderError, match=rf"is damaged \(.*{message}"):
        folder.read(written)


def test_a_small_file_of_large_arrays_is_refused(written):
    with np.load(written / "history.npz") as archive:
        np.savez_compressed(written / "history.npz", **archive, zeros=np.zeros(10**6))
    with pytest.raises(FolderError, match=r"history.npz unpacks to 8.* MB, more than it has"):
        folder.read(written)


@pytest.mark.parametrize("damage", ["best", "no best", "one less", "one more", "no list"])
def test_damaged_lists_of_starts_are_refused(written, damage):
    about = json.loads((written / "fit.json").read_text())
    record = about["result"]
    if damage == "best":
        record["best_start"] = 3
    elif damage == "no best":
        del record["best_start"]
    elif damage == "no list":
        record["starts"] = "abc"
    else:
        starts = record["starts"]
        record["starts"] = starts[:-1] if damage == "one less" else [*starts, starts[0]]
    (written / "fit.json").write_text(json.dumps(about))
    with pytest.raises(FolderError, match="is damaged"):
        folder.read(written)


@pytest.mark.parametrize(
    ("file", "name", "how"),
    [
        ("history", "similarity", lambda A: A[:, :-1]),
        ("history", "similarity", lambda A: A[0]),
        ("history", "similarity", lambda A: 2 * np.ones_like(A)),
        ("history", "similarity", lambda A: np.nan * A),
        ("history", "similarity", lambda A: A.astype(str)),
        ("history", "similarity", None),
        ("factors", "spread W", lambda A: A[:-1]),
        ("factors", "spread H", lambda A: -1 - A),
        ("factors", "spread H", lambda A: np.inf + A),
        ("factors", "spread W", None),
        ("factors", "spread H", None),
    ],
)
def test_damaged_arrays_of_starts_are_refused(written, file, name, how):
    def damage(arrays):
        array = arrays.pop(name)
        if how is not None:
            arrays[name] = how(array)

    change(written, file, damage)
    with pytest.raises(FolderError, match="is damaged"):
        folder.read(written)
