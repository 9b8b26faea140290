"""Tables of the pages that come from stored benchmarks are those of the stored benchmarks."""

import re
from pathlib import Path

import pytest

from benchmarks import kl, missing, path, rank_choice
from benchmarks.common import load

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("table", [rank_choice.table, rank_choice.confidence_table])
def test_tables_of_criteria_are_the_stored_ones(table):
    assert table() in (DOCS / "choosing.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("level", "least"), [("high", 0.95), ("medium", 0.8)])
@pytest.mark.parametrize("measured", [True, False])
def test_confidence_is_worth_what_it_says(level, least, measured):
    rows = [row for row in load("rank_choice")["rows"] if "evidence" in row]
    said = [(row["rank"], rank_choice._assessment(row, measured)) for row in rows]
    near = [abs(found.rank - rank) <= 1 for rank, found in said if found.confidence == level]
    assert len(near) > 50
    assert sum(near) >= least * len(near)


def test_table_of_both_losses_is_the_stored_one():
    assert kl.table() in (DOCS / "loss.md").read_text(encoding="utf-8")


def test_tables_of_missing_values_are_the_stored_ones():
    page = (DOCS / "missing.md").read_text(encoding="utf-8")
    assert missing.with_section(page) == page
    other = page.replace("<!-- end of the stored", "| 1 |\n<!-- end of the stored")
    assert missing.with_section(other) == page


def test_table_of_the_path_is_the_stored_one():
    assert path.table(load("path")["rows"]) in (DOCS / "benchmarks.md").read_text(encoding="utf-8")


def test_path_keeps_what_is_asked_of_it():
    """Errors against the best of three separate fits, and the share of their time."""
    rows = load("path")["rows"]
    assert sum(row["n_max"] for row in rows) == 119
    assert all(row["share not above"] >= 0.95 for row in rows)
    assert all(row["seconds"] <= 0.4 * row["separate seconds"] for row in rows)
    better = sum(row["share better"] * row["n_max"] for row in rows)
    assert better >= 0.15 * 119


def test_the_readme_counts_data_sets_as_the_results_do():
    numbers = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    results = (DOCS.parent / "reproduce" / "RESULTS.md").read_text(encoding="utf-8")
    from_random_starts = results.split("From random starts, NMF-Merge against")[1]
    lists = re.findall(r"^- \*\*.* on (.*)[;.]$", from_random_starts, re.MULTILINE)[:3]
    better, level, worse = (
        numbers[0 if names == "none" else len(names.split(", "))] for names in lists
    )
    readme = " ".join((DOCS.parent / "README.md").read_text(encoding="utf-8").split())
    assert f"in its time on {better}, ties on {level} and ends higher on {worse};" in readme


def test_the_readme_says_what_the_benchmarks_say():
    """Errors and times of the default against scikit-learn."""
    readme = " ".join((DOCS.parent / "README.md").read_text(encoding="utf-8").split())
    rows = load("starts/default")["rows"]
    lower = sum(row["error ratio"] < 0.999 for row in rows)
    words = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}
    assert len(rows) == 12
    assert max(row["error ratio"] for row in rows) < 1.0005
    assert f"run to convergence, and more than 0.1 % lower on {words[lower]}." in readme
    rows = [row for row in rows if row["their seconds"] > 0.1]
    times = [row["time ratio"] for row in rows]
    assert f"take {min(times):.1f} to {max(times):.1f} times as long as one start of its" in readme
    longest = max(row["time ratio at 200"] for row in rows)
    higher = max(1 / row["error ratio at 200"] - 1 for row in rows)
    assert f"up to {longest:.1f} times as long as one that stops at its default of 200" in readme
    assert f"where its error is up to {100 * higher:.0f} % higher" in readme


def test_the_readme_says_how_much_faster_the_solver_is():
    readme = " ".join((DOCS.parent / "README.md").read_text(encoding="utf-8").split())
    rows = load("cpu-2-cores/to_equal_error")["rows"]
    means = [row["times faster"] for row in rows if row["data"].endswith(", geometric mean")]
    assert len(means) == 6
    assert (
        f"[{min(means):.1f} to {max(means):.0f} times faster](docs/benchmarks.md#to-equal-error) "
        "on six dense data sets"
    ) in readme
    sparse = [row["times faster"] for row in load("cpu-2-cores/sparse")["rows"]]
    assert (
        f"[{min(sparse):.1f} to {max(sparse):.1f} times](docs/benchmarks.md#sparse-data) on two "
        "sparse ones"
    ) in readme


def test_the_readme_tells_the_time_on_a_gpu_and_what_starts_cost():
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    content = load("gpu/figure_a")
    total = sum(row["seconds"] for row in content["rows"] if row["data"] != "all")
    assert f"[{total:.0f} seconds](docs/benchmarks.md#on-a-gpu) on an {content['gpu']}" in readme
    rows = [row for row in load("starts/default")["rows"] if row["their seconds"] > 0.1]
    assert len(rows) == 9
    assert max(row["time ratio"] for row in rows) < 1.5
    assert max(row["error ratio"] for row in load("starts/default")["rows"]) < 1.001
    rows = [row for row in load("cores-2/starts")["rows"] if row["one thread (s)"] > 1]
    assert len(rows) == 4
    assert min(row["times faster"] for row in rows) > 1.7
