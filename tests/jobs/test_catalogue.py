import numpy as np
import pandas as pd
import pytest

from nmfmerge import jobs
from nmfmerge.datasets import mutation_catalogue
from nmfmerge.fields.mutations import KINDS
from nmfmerge.jobs.mutations.catalogue import catalogue, usual_limit

DATA = mutation_catalogue(3, 6)


def frame(data=DATA):
    return pd.DataFrame(data.X, index=data.rows.values, columns=data.columns.values)


def test_any_layout_of_the_table_is_the_same_catalogue(tmp_path):
    shuffled = frame().sample(frac=1, random_state=0)
    shuffled.rename_axis("MutationType").to_csv(tmp_path / "counts.tsv", sep="\t")
    shuffled.T.to_csv(tmp_path / "turned.csv")
    tables = [DATA, shuffled, shuffled.T, shuffled.rename_axis("Type").reset_index()]
    for table in [*tables, tmp_path / "counts.tsv", str(tmp_path / "turned.csv")]:
        found = catalogue(table)
        assert found.kind is KINDS["SBS96"]
        assert found.samples == tuple(DATA.columns.values)
        np.testing.assert_array_equal(found.counts, DATA.X)


@pytest.mark.parametrize("name", KINDS)
def test_every_classification_is_read(name):
    types = KINDS[name].types
    counts = np.arange(2.0 * len(types)).reshape(-1, 2)
    found = catalogue(pd.DataFrame(counts[::-1], index=types[::-1], columns=["a", "b"]))
    assert found.kind.name == name
    np.testing.assert_array_equal(found.counts, counts)


def test_samples_without_mutations_are_left_out_and_named():
    table = frame()
    table["nothing"] = 0
    found = catalogue(table)
    assert found.empty == ("nothing",)
    assert found.samples == tuple(DATA.columns.values)


def test_types_that_the_table_lacks_count_as_zero_and_are_named():
    found = catalogue(frame().drop(index=["A[C>A]A", "T[T>G]T"]))
    assert found.absent == ("A[C>A]A", "T[T>G]T")
    np.testing.assert_array_equal(found.counts[1:-1], DATA.X[1:-1])
    assert not found.counts[[0, -1]].any()


def test_samples_may_have_the_same_name():
    twice = pd.concat([frame(), frame()], axis=1)
    np.testing.assert_array_equal(catalogue(twice).counts, np.tile(DATA.X, 2))
    inside = twice.reset_index(allow_duplicates=True)
    np.testing.assert_array_equal(catalogue(inside).counts, np.tile(DATA.X, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.rename(index={"A[C>A]A": "sum"}), "table cannot be read: 'sum' is not among"),
        (lambda t: pd.concat([t, t]), "more than once"),
        (lambda t: -t, "table has negative or missing values; expected counts"),
        (lambda t: 0 * t, "table has no mutations"),
        (lambda t: t.reset_index(drop=True), "neither rows nor columns with names of mutation"),
        (lambda t: t.astype(object).where(t > 0, "none"), "table has values that are no numbers"),
        (lambda t: t.to_numpy(), "is a ndarray without names of mutation types; expected a path"),
    ],
)
def test_a_wrong_table_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        catalogue(change(frame()))


@pytest.mark.parametrize("analyse", [jobs.signatures, lambda t: jobs.refit(t, frame())])
def test_shares_are_no_counts(analyse):
    shares = frame() / frame().sum()
    catalogue(shares)  # they can be known signatures
    with pytest.raises(ValueError, match="table has shares that add up to at most 1; expected co"):
        analyse(shares.round(3))


def test_a_sample_is_hypermutated_from_ten_times_the_median():
    totals = mutation_catalogue(5, 40, n_hypermutated=2).X.sum(axis=0)
    np.testing.assert_array_equal(np.flatnonzero(totals > usual_limit(totals)), [38, 39])
    assert not (totals[:1] > usual_limit(totals[:1])).any()
