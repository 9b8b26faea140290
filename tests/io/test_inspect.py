import json
import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.datasets import Axis, Dataset, melody
from nmfmerge.io import describe, read
from nmfmerge.io.inspect import looks_like_counts

BAD = np.array([[0.0, 1.0, 0.0], [0.0, -2.0, 7.0], [0.0, 0.0, 0.0], [0.0, np.nan, np.inf]])


def dataset(X, n_components=None):
    m, n = X.shape
    rows, columns = Axis("m/z", np.arange(m)), Axis("time", np.arange(n), "s")
    return Dataset("x", X, n_components, rows, columns)


def test_a_few_names_of_rows_and_columns_are_shown():
    genes = Axis("gene", np.array(["TP53", "MYC", "a\nb", "x" * 99, "KRAS", "EGFR"]))
    data = Dataset("x", np.ones((6, 3)), None, genes, Axis("m/z", 100.1 + np.arange(3.0)))
    facts = describe(data)
    assert facts["row_names"] == f"TP53, MYC, a b, {'x' * 23}…, …, EGFR"
    assert facts["column_names"] == "100.1, …, 102.1"
    few = Dataset(
        "x", np.ones((2, 1)), None, Axis("g", np.array(["a", "b"])), Axis("column", np.arange(1))
    )
    assert describe(few)["row_names"] == "a, b"
    assert "column_names" not in describe(few)


@pytest.mark.parametrize("make", [np.array, sp.csr_matrix, sp.csc_array])
def test_numbers_are_those_of_the_matrix(make):
    facts = describe(dataset(make(BAD)))
    problems = facts.pop("problems")
    sparse = make is not np.array
    megabytes = facts.pop("megabytes")
    assert facts == {
        "name": "x",
        "shape": [4, 3],
        "kind": "sparse" if sparse else "dense",
        "dtype": "float64",
        "stored": 5 if sparse else 12,
        "density": 5 / 12,
        "min": -2.0,
        "max": 7.0,
        "mean": 0.6,
        "negative": 1,
        "nan": 1,
        "infinite": 1,
        "zero_rows": 1,
        "zero_columns": 1,
        "counts": False,
        "rows": "m/z",
        "columns": "time (s)",
    }
    assert megabytes >= (5 if sparse else 12) * 8 / 1e6
    assert [re.split(" and | \\(8", problem)[0] for problem in problems] == [
        "1 entry is negative (down to -2)",
        "1 entry is missing",
        "1 entry is infinite",
        "1 row is all zero",
        "1 column is all zero",
    ]


@pytest.mark.parametrize("make", [np.array, sp.csr_matrix])
def test_it_is_json_and_problems_are_sentences(make):
    facts = describe(dataset(make(BAD), n_components=9))
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    for problem in facts["problems"]:
        assert problem.endswith(".")
        assert ": " in problem  # what is wrong: what to do


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, bool])
def test_types_other_than_float64(dtype):
    facts = describe(dataset(np.array([[0, 1], [1, 1]], dtype=dtype)))
    assert (facts["min"], facts["max"], facts["mean"]) == (0, 1, 0.75)
    assert facts["dtype"] == np.dtype(dtype).name
    assert facts["problems"] == []


def test_good_data_have_no_problems():
    assert describe(melody(65, 40))["problems"] == []


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.where(np.eye(9) > 0, 1e9, 1.0), "1.0e+09 times the typical one"),
        (np.full((3, 3), 1e160), "Values reach"),
        (np.full((3, 3), 1e-160), "No value is above"),
        (np.ones((1, 9)), "a single row or column"),
        (np.zeros((3, 3)), "All entries are zero"),
        (sp.csr_matrix((3, 3)), "All entries are zero"),
    ],
)
def test_what_spoils_a_fit_is_said(X, words):
    assert any(words in problem for problem in describe(dataset(X))["problems"])


def test_more_components_than_the_shape_allows():
    assert describe(dataset(np.ones((4, 3)), 3))["problems"] == []
    assert "ask for at most 3" in describe(dataset(np.ones((4, 3)), 4))["problems"][0]


def test_nothing_finite_has_no_extremes():
    facts = describe(dataset(np.full((2, 2), np.nan)))
    assert facts["min"] is facts["max"] is facts["mean"] is None
    assert facts["nan"] == 4


def test_what_was_read_can_be_described(tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    facts = describe(read(tmp_path / "x.npy"))
    assert (facts["shape"], facts["mean"]) == ([5, 4], X.mean())


def test_axes_without_data_are_refused():
    data = Dataset("x", None, None, Axis("a", np.arange(2)), Axis("b", np.arange(3)))
    with pytest.raises(ValueError, match="'x' has axes but no data"):
        describe(data)


def test_extreme_and_signalling_values_give_no_warnings(tmp_path):
    X = np.full((3, 2), 1.7e308)
    X[0, 0] = np.frombuffer(bytes.fromhex("010000000000f07f"), "<f8")[0]  # a signalling NaN
    np.save(tmp_path / "x.npy", X)
    facts = describe(read(tmp_path / "x.npy"))
    assert facts["nan"] == 1
    assert facts["mean"] == pytest.approx(1.7e308)


@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
@pytest.mark.parametrize(
    ("X", "counts"),
    [
        (np.random.default_rng(0).poisson(2, (8, 9)), True),
        (np.random.default_rng(0).poisson(2, (8, 9)).astype(np.float32), True),
        (np.random.default_rng(0).poisson(2, (8, 9)) + 0.5, False),
        (np.random.default_rng(0).poisson(2, (8, 9)) - 1, False),
        (np.random.default_rng(0).poisson(5000, (8, 9)), False),
        (np.eye(8, 9), False),
        (np.zeros((8, 9)), False),
        (np.eye(8, 9) > 0, False),
    ],
)
def test_counts_are_recognised(X, counts, kind):
    assert describe(dataset(kind(X)))["counts"] is counts


def test_pictures_are_no_counts():
    pixels = dataset(np.random.default_rng(0).poisson(2, (8, 9)))
    assert not looks_like_counts(replace(pixels, image_shape=(2, 4)))
