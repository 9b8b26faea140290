"""`nmfmerge path`: every rank in a folder that other commands read, and the rank to take."""

import csv
import json

import numpy as np
import pytest

from nmfmerge import rank_path
from nmfmerge.cli import path as path_command
from nmfmerge.ranks.path import PathInterrupted
from nmfmerge.storage import folder


@pytest.fixture
def made(command, file, tmp_path):
    out = tmp_path / "out"
    code, text, err = command("path", file, "--max", 7, "-o", out, "--no-report")
    assert (code, err) == (0, "")
    return out, text


def test_path_writes_every_rank_and_prints_what_it_says(made, X):
    out, text = made
    fit = folder.read(out)
    same = rank_path(X, 7, stability=True)
    np.testing.assert_array_equal(fit.path.fitting_errors, same.fitting_errors)
    np.testing.assert_array_equal(fit.path.penalties, same.penalties)
    np.testing.assert_array_equal(fit.path.stability, same.stability)
    np.testing.assert_array_equal(fit.path.structure, same.structure)
    assert fit.path.assess() == same.assess()
    assert fit.result.n_components == same.assess().rank
    for rank, result in same.items():
        for name in ("W", "H"):
            np.testing.assert_array_equal(getattr(fit.path[rank], name), getattr(result, name))
    assert str(same.assess()) in text
    assert f"with the fit of rank {fit.result.n_components}" in text


def test_table_has_a_line_for_each_rank(made):
    lines = list(csv.DictReader((made[0] / "path.csv").read_text().splitlines()))
    path = folder.read(made[0]).path
    assert [int(line["rank"]) for line in lines] == list(path)
    errors = [float(line["fitting error (%)"]) for line in lines]
    np.testing.assert_allclose(errors, path.fitting_errors, rtol=1e-8)
    assert lines[0]["merge penalty (%)"] == ""


def test_json_is_json_and_complete(command, file, tmp_path):
    words = ("--max", 6, "--min", 2, "-r", 3, "--no-stability", "--no-report", "--json")
    code, text, _ = command("path", file, *words, "-o", tmp_path / "out")
    said = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert code == 0
    assert said["ranks"] == [2, 3, 4, 5, 6]
    assert said["penalties"][0] is None
    assert said["stability"] == [None] * 5
    assert said["rank"] == 3
    assert {"rank", "reason", "confidence"} <= set(said["assessment"])
    assert folder.read(tmp_path / "out").result.n_components == 3


def test_report_tells_which_rank(command, file, tmp_path, drawn):
    out = tmp_path / "out"
    assert command("path", file, "--max", 6, "-o", out)[0] == 0
    for _ in range(2):
        page = (out / "report.html").read_text()
        assert "Which rank?" in page
        assert "Every rank of the path" in page
        assert (out / "figures/rank-path.png").stat().st_size > 1000
        (out / "report.html").unlink()
        (out / "figures/rank-path.png").unlink()
        assert command("report", out)[0] == 0


def test_a_path_is_a_fit_for_the_other_commands(command, made, tmp_path):
    merged = tmp_path / "merged"
    code, *_ = command("merge", made[0], "-r", 2, "-o", merged)
    assert code == 0
    assert folder.read(merged).path is None
    assert command("compare", made[0], made[0])[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max", 41], "--max 41 is too large for X with 40 rows and 60 columns"),
        (["--max", 3, "--min", 4], "--min 4 is above --max 3"),
        (["--max", 4, "--rank", 5], "--rank 5 is not between --min 1 and --max 4"),
        (["--max", 4, "--tol", -1], "--tol -1.0 is out of range"),
    ],
)
def test_wrong_options_are_named_as_typed(command, file, tmp_path, words, message):
    out = tmp_path / "out"
    code, _, err = command("path", file, *words, "-o", out)
    assert code == 1
    assert message in err
    assert not out.exists()


def test_folder_of_something_else_is_never_overwritten(command, file, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "path.npz").write_text("mine")
    code, _, err = command("path", file, "--max", 3, "-o", out, "--force")
    assert code == 1
    assert "something other than a fit" in err
    assert (out / "path.npz").read_text() == "mine"


def test_time_limit_is_told_and_the_path_written(command, file, tmp_path):
    words = ("--max", 6, "--tol", 0, "--max-time", 0.01, "--no-report", "-o", tmp_path / "out")
    code, _, err = command("path", file, *words)
    assert code == 3
    assert "--max-time 0.01 s had passed" in err
    assert len(folder.read(tmp_path / "out").path) == 6


def test_interrupted_path_is_written(command, file, tmp_path, X, monkeypatch):
    def interrupted(*_, **__):
        raise PathInterrupted(rank_path(X, 4))

    monkeypatch.setattr(path_command, "rank_path", interrupted)
    out = tmp_path / "out"
    code, _, err = command("path", file, "--max", 4, "--no-report", "-o", out)
    assert code == 130
    assert f"what was reached is written to {out}" in err
    assert len(folder.read(out).path) == 4


@pytest.mark.parametrize("damage", ["missing", "other ranks", "negative", "other data"])
def test_damaged_path_is_refused(made, damage, X):
    out = made[0]
    arrays = dict(np.load(out / "path.npz"))
    if damage == "missing":
        (out / "path.npz").unlink()
    else:
        if damage == "other ranks":
            arrays["3 W"] = arrays["4 W"]
        elif damage == "negative":
            arrays["3 W"] = -arrays["3 W"]
        else:
            for name in arrays:
                if name.endswith(" W"):
                    arrays[name] = arrays[name][1:]
        np.savez(out / "path.npz", **arrays)
    with pytest.raises(folder.FolderError, match="is damaged"):
        folder.read(out)
