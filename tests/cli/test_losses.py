"""Fits by Kullback–Leibler on the command line: what is written, and what the texts say."""

import csv
import json
import re

import numpy as np
import pytest

from nmfmerge import merge_components, nmf
from nmfmerge.storage import folder


@pytest.fixture
def counts(tmp_path):
    rng = np.random.default_rng(3)
    W, H = rng.gamma(0.3, size=(40, 4)), rng.gamma(0.3, size=(4, 30))
    X = rng.poisson(30 * W @ H).astype(float)
    np.save(tmp_path / "counts.npy", X)
    return X


@pytest.fixture
def fit(command, counts, tmp_path):
    output = tmp_path / "kl"
    words = ["--loss", "kl", "--starts", 1, "--no-compare", "--tables", "csv"]
    code, out, err = command(
        "fit", tmp_path / "counts.npy", "-r", 4, *words, "-o", output, "--json"
    )
    assert (code, err) == (0, "")
    assert json.loads(out)["loss"] == "kullback-leibler"
    return output


def test_tables_are_of_the_loss(fit):
    with open(next(fit.rglob("merges.csv")), newline="") as file:
        assert "penalty (% of the sum of WH)" in next(csv.reader(file))
    result = folder.read(fit).result
    share = [float(row["share (%)"]) for row in rows(next(fit.rglob("components.csv")))]
    masses = result.W.sum(axis=0) * result.H.sum(axis=1)
    np.testing.assert_allclose(share, 100 * masses / masses.sum(), rtol=1e-4)
    assert sorted(share, reverse=True) == share


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("drawn")
def test_the_report_speaks_of_the_loss(fit):
    page = re.sub(r"\s+", " ", (fit / "report.html").read_text())
    assert "the divergence of the merged component from the two" in page
    assert "square of what a merge changed" not in page
    assert "Near 1, nothing was missing" not in page
    assert "which is that of the sum of WH." in page
    assert "sum of squares" not in page
    assert "Components may still be missing" not in page  # strengths are on another scale
    numbers = [int(k) for k in re.findall(r"id=\"component-(\d+)\"", page)]
    assert numbers == [1, 2, 3, 4]


def test_merging_keeps_the_loss_and_the_penalties(command, fit, counts, tmp_path):
    code, out, _ = command("merge", fit, "-r", 3, "-o", tmp_path / "three", "--json")
    assert code == 0
    before, after = folder.read(fit), folder.read(tmp_path / "three")
    assert after.result.loss == json.loads(out)["loss"] == "kullback-leibler"
    assert after.about.settings["beta_loss"] == "kullback-leibler"
    assert after.about.around["loss"] == "kullback-leibler"
    W, H, tree = merge_components(before.result.W, before.result.H, 3, beta_loss="kullback-leibler")
    polished = nmf(counts, 3, init=(W, H), beta_loss="kullback-leibler", tol=1e-4)
    np.testing.assert_array_equal(after.result.merges.penalties, tree.penalties)
    assert after.result.fitting_error == pytest.approx(polished.fitting_error, rel=1e-12)


def test_errors_of_different_losses_are_told_apart(command, fit, tmp_path):
    other = tmp_path / "squares"
    command("fit", tmp_path / "counts.npy", "-r", 4, "--starts", 1, "--no-compare", "-o", other)
    code, out, _ = command("compare", fit, other)
    assert code == 0
    assert "% of the deviance of the margins" in out
    assert "% of ‖X‖²" in out
    assert "their errors cannot be compared" in out
    _, out, _ = command("compare", fit, fit)
    assert "deviance" not in out
    outcome = json.loads(command("compare", fit, other, "--json")[1])
    assert outcome["losses"] == ["kullback-leibler", "frobenius"]


def test_streamed_data_are_refused_in_options(command, counts, tmp_path):
    code, _, err = command(
        "fit", tmp_path / "counts.npy", "-r", 4, "--loss", "kl", "--memory", "1G"
    )
    assert code == 1
    assert "--loss kl needs the data in memory; leave out --memory" in err
    assert "compute" not in err
