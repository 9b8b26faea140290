import csv
import json
import os
import re
import warnings

import numpy as np
import pytest

from nmfmerge import nmf, nmf_merge, rank_path
from nmfmerge.cli import fit as fit_command
from nmfmerge.storage import folder


def contents(path):
    return {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_fit_writes_the_factors_that_the_function_returns(command, file, X, tmp_path):
    code, out, err = command("fit", file, "-r", 5, "-o", tmp_path / "out")
    expected = nmf_merge(X, 5)
    assert code == 0
    assert err == ""
    assert f"fitting error {expected.fitting_error:.6g} %" in out
    fit = folder.read(tmp_path / "out")
    np.testing.assert_array_equal(fit.result.W, expected.W)
    np.testing.assert_array_equal(fit.result.H, expected.H)
    np.testing.assert_array_equal(fit.result.merges.pairs, expected.merges.pairs)
    np.testing.assert_array_equal(fit.result.merges.penalties, expected.merges.penalties)
    assert [stage.n_iter for stage in fit.result.stages] == [s.n_iter for s in expected.stages]
    assert fit.result.fitting_error == expected.fitting_error
    assert fit.result.converged
    assert not (tmp_path / "out.unfinished").exists()


def test_a_fit_has_as_many_starts_as_asked_for(command, file, X, tmp_path):
    for words, n, expected in (
        ([], 4, nmf_merge(X, 4)),
        (["--starts", 2], 2, nmf_merge(X, 4, n_init=2)),
        (["--starts", 1], 1, nmf_merge(X, 4, n_init=1)),
        (["-k", 0], 1, nmf(X, 4)),
        (["-k", 0, "--starts", 3], 3, nmf(X, 4, n_init=3)),
    ):
        code, out, _ = command("fit", file, "-r", 4, *words, "-o", tmp_path / "out", "--force")
        assert code == 0
        fit = folder.read(tmp_path / "out")
        np.testing.assert_array_equal(fit.result.W, expected.W)
        assert max(1, len(fit.result.starts)) == fit.about.settings["n_init"] == n
        assert (f"best of {n} starts" in out) == (n > 1)


def test_a_fit_is_penalised(command, file, X, tmp_path):
    words = ["--alpha-W", 0.01, "--alpha-H", 0.02, "--l1-ratio", 0.5]
    code, _, err = command("fit", file, "-r", 4, *words, "-o", tmp_path / "out")
    expected = nmf_merge(X, 4, alpha_W=0.01, alpha_H=0.02, l1_ratio=0.5)
    assert (code, err) == (0, "")
    fit = folder.read(tmp_path / "out")
    np.testing.assert_array_equal(fit.result.W, expected.W)
    assert fit.result.objective == expected.objective
    assert fit.about.settings["alpha_W"] == 0.01
    assert command("fit", file, "-r", 4, "--alpha-W", -1, "-o", tmp_path / "no")[0] == 1


def test_scripts_get_the_starts(command, file, X, tmp_path):
    words = ["fit", file, "-r", 4, "-o", tmp_path / "out", "--json", "--force"]
    outcome = json.loads(command(*words)[1])
    expected = nmf_merge(X, 4)
    assert outcome["best_start"] == expected.best_start + 1
    assert outcome["starts"] == [
        {"init": start.init, "seed": start.seed, "fitting_error": start.fitting_error,
         "n_iter": start.n_iter, "status": start.status, "components_found": start.n_found}
        for start in expected.starts
    ]  # fmt: skip
    assert "starts" not in json.loads(command(*words, "--starts", 1)[1])


def test_fit_writes_everything_that_is_promised(command, file, tmp_path, drawn):
    command("fit", file, "-r", 5, "-o", tmp_path / "out")
    names = {str(name) for name in contents(tmp_path / "out")}
    assert names == {
        "factors.npz", "history.npz", "axes.npz", "W.csv", "H.csv", "components.csv", "starts.csv",
        "merges.csv", "fit.json", "report.html", "figures/components.png",
        "figures/convergence.png",
        "figures/reconstruction.png", "figures/merges.png", "figures/singular-values.png",
        "figures/starts.png",
    }  # fmt: skip
    about = json.loads((tmp_path / "out/fit.json").read_text())
    assert about["settings"]["n_components"] == 5
    assert re.fullmatch("[0-9a-f]{64}", about["data_sha256"])
    assert set(about["versions"]) >= {"nmfmerge", "numpy", "numba"}
    assert (tmp_path / "out/report.html").read_text().startswith("<!DOCTYPE html>")


def test_report_and_figures_can_be_left_out(command, file, tmp_path, drawn):
    assert command("fit", file, "-r", 5, "-o", tmp_path / "out", "--no-report")[0] == 0
    names = {str(name) for name in contents(tmp_path / "out")}
    assert "factors.npz" in names
    assert not {name for name in names if name.startswith(("report", "figures"))}
    command("report", tmp_path / "out")
    assert (tmp_path / "out/report.html").exists()


def test_tables_have_the_names_of_rows_and_columns(command, tmp_path):
    lines = ["gene,a,b,c,d", "x,1,2,3,4", "y,2,1,4,3", "z,5,6,1,2"]
    (tmp_path / "counts.csv").write_text("\n".join(lines) + "\n")
    assert command("fit", tmp_path / "counts.csv", "-r", 2, "-o", tmp_path / "out")[0] == 0
    with open(tmp_path / "out/W.csv", newline="") as opened:
        table = list(csv.reader(opened))
    assert [row[0] for row in table[1:]] == ["x", "y", "z"]
    assert table[0][1:] == ["component 1", "component 2"]
    with open(tmp_path / "out/H.csv", newline="") as opened:
        assert [row[0] for row in csv.reader(opened)][1:] == ["a", "b", "c", "d"]
    W = np.array([[float(cell) for cell in row[1:]] for row in table[1:]])
    np.testing.assert_allclose(W, folder.read(tmp_path / "out").result.W, rtol=1e-8)


def test_the_stored_command_repeats_the_fit(command, file, tmp_path):
    chosen = [
        "-k",
        2,
        "--starts",
        3,
        "--solver",
        "gcd",
        "--init",
        "random",
        "--seed",
        7,
        "--tol",
        1e-3,
    ]
    command("fit", file, "-r", 4, *chosen, "--transpose", "-o", tmp_path / "one")
    words = json.loads((tmp_path / "one/fit.json").read_text())["command"].split()
    assert words[:2] == ["nmfmerge", "fit"]
    command(*words[1:], "-o", tmp_path / "two")
    first, second = (folder.read(tmp_path / name).result for name in ("one", "two"))
    np.testing.assert_array_equal(first.W, second.W)
    assert len(first.W) == 60


def test_an_existing_folder_is_kept_unless_forced(command, file, tmp_path):
    out = tmp_path / "out"
    command("fit", file, "-r", 4, "-o", out)
    before = contents(out)
    code, _, err = command("fit", file, "-r", 5, "-o", out)
    assert code == 1
    assert "--force" in err
    assert contents(out) == before
    assert command("fit", file, "-r", 5, "-o", out, "--force")[0] == 0
    assert folder.read(out).result.n_components == 5
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_failure_while_writing_leaves_nothing_half_written(command, file, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("the disk is full")

    with monkeypatch.context() as context:
        context.setattr(folder, "_put_in_place", fail)
        code, _, err = command("fit", file, "-r", 4, "-o", tmp_path / "out")
    assert code == 1
    assert "out could not be written (the disk is full): make room, then repeat" in err
    assert "--resume" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.unfinished", "run.npy"]
    assert command("fit", file, "-r", 4, "-o", tmp_path / "out", "--resume")[0] == 0
    np.testing.assert_array_equal(
        folder.read(tmp_path / "out").result.W, nmf_merge(np.load(file), 4).W
    )


def test_a_run_that_was_cut_off_is_not_lost_by_accident(command, file, tmp_path, monkeypatch):
    with monkeypatch.context() as context:
        context.setattr(folder, "_put_in_place", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            command("fit", file, "-r", 4, "-o", tmp_path / "out")
    code, _, err = command("fit", file, "-r", 4, "-o", tmp_path / "out")
    assert code == 1
    assert "--resume" in err
    assert "--force" in err
    code, _, err = command("fit", file, "-r", 5, "-o", tmp_path / "out", "--resume")
    assert code == 1
    assert "another command" in err
    assert command("fit", file, "-r", 5, "-o", tmp_path / "out", "--force")[0] == 0


def test_resuming_what_is_finished_does_nothing(command, file, tmp_path):
    command("fit", file, "-r", 4, "-o", tmp_path / "out")
    before = contents(tmp_path / "out")
    code, out, _ = command("fit", file, "-r", 4, "-o", tmp_path / "out", "--resume")
    assert code == 0
    assert "finished" in out
    assert contents(tmp_path / "out") == before


def test_resuming_another_fit_is_refused(command, file, tmp_path, X):
    out = tmp_path / "out"
    command("fit", file, "-r", 4, "-o", out)
    before = contents(out)
    np.save(tmp_path / "other.npy", 2 * X)
    for words in (
        [file, "-r", 5],
        [file, "-r", 4, "--transpose"],
        [tmp_path / "other.npy", "-r", 4],
    ):
        code, _, err = command("fit", *words, "-o", out, "--resume")
        assert code == 1
        assert "is another fit" in err
    assert contents(out) == before


def test_a_fit_out_of_iterations_goes_on_with_more(command, file, tmp_path, X):
    words = ["fit", file, "-r", 4, "-k", 0, "-o", tmp_path / "out"]
    assert command(*words, "--max-iter", 5)[0] == 3
    code, out, _ = command(*words, "--max-iter", 5, "--resume", "--json")
    assert code == 3
    assert json.loads(out)["n_iter"] == 5
    assert command(*words, "--resume")[0] == 0
    result = folder.read(tmp_path / "out").result
    np.testing.assert_array_equal(result.W, nmf_merge(X, 4, n_extra=0, n_init=1).W)
    assert not (tmp_path / "out.unfinished").exists()


def test_force_replaces_fits_only(command, file, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis.txt").write_text("years")
    (tmp_path / "note.txt").write_text("years")
    for name in ("precious", "note.txt"):
        code, _, err = command("fit", file, "-r", 4, "-o", tmp_path / name, "--force")
        assert code == 1
        assert "something other than a fit" in err
    assert (tmp_path / "precious/thesis.txt").read_text() == "years"
    assert (tmp_path / "note.txt").read_text() == "years"


def test_a_replacement_that_fails_leaves_the_old_fit(command, file, tmp_path, monkeypatch):
    out = tmp_path / "out"
    command("fit", file, "-r", 4, "-o", out)
    before = contents(out)
    rename = os.rename
    moves = []

    def fail_once(source, target):
        moves.append(source)
        if len(moves) == 2:
            raise OSError("the disk is full")
        rename(source, target)

    with monkeypatch.context() as context:
        context.setattr(os, "rename", fail_once)
        assert command("fit", file, "-r", 5, "-o", out, "--force")[0] == 1
    assert len(moves) == 3
    assert contents(out) == before


def test_every_warning_reaches_the_user(command, file, tmp_path, monkeypatch):
    def warned(*arguments, **settings):
        warnings.warn("the singular values are off", RuntimeWarning, stacklevel=2)
        return nmf_merge(*arguments, **settings)

    monkeypatch.setattr(fit_command, "nmf_merge", warned)
    _, _, err = command("fit", file, "-r", 4, "-o", tmp_path / "out")
    assert err == "nmfmerge: the singular values are off\n"


def test_a_fit_out_of_iterations_is_written_and_says_so(command, file, tmp_path):
    code, _, err = command("fit", file, "-r", 4, "--max-iter", 2, "-o", tmp_path / "out")
    assert code == 3
    assert "had not converged" in err
    assert not folder.read(tmp_path / "out").result.converged


def test_json_is_for_scripts(command, file, tmp_path):
    code, out, err = command("fit", file, "-r", 4, "-o", tmp_path / "out", "--json")
    outcome = json.loads(out)
    assert code == 0
    assert err == ""
    assert outcome["folder"] == str(tmp_path / "out")
    assert outcome["converged"] is True
    assert outcome["fitting_error"] == nmf_merge(np.load(file), 4).fitting_error
    code, out, _ = command("fit", tmp_path / "none.npy", "-r", 4, "--json")
    assert code == 1
    assert "not found" in json.loads(out)["error"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.npy", "-r", 3], "none.npy was not found"),
        (["run.npy", "-r", 41], ": --rank 41 is too large"),
        (["run.npy", "-r", 3, "--starts", 0], ": --starts 0 is out of range"),
        (["run.npy", "-r", 3, "--tol", -1], ": --tol -1.0 is out of range"),
        (["run.npy", "-r", 3, "--window", 512],
         ": --window 512 is not an option of the format 'npy', which takes --pixel-axes"),
        (["run.npy", "-r", 3, "-o", "run.npy/out"], "cannot be written"),
        (["negative.npy", "-r", 2], "Negative values"),
    ],
)  # fmt: skip
def test_errors_are_one_sentence(words, said, command, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("negative.npy", -np.ones((3, 4)))
    code, out, err = command("fit", *words)
    assert code == 1
    assert out == ""
    assert err.startswith("nmfmerge: ")
    assert err.count("\n") == 1
    assert said in err
    assert not list(tmp_path.glob("*.unfinished"))


@pytest.mark.parametrize("words", [[], ["fit"], ["nonsense"], ["fit", "-r", "x"]])
def test_a_mistyped_command_ends_with_code_2(words, command, capsys):
    with pytest.raises(SystemExit) as stop:
        command(*words)
    assert stop.value.code == 2
    assert "usage: nmfmerge" in capsys.readouterr().err


def test_without_a_rank_the_ways_to_one_are_named(command, file):
    code, _, message = command("fit", file)
    assert code == 2
    for way in ("-r N", "-r auto", f"nmfmerge path {file} --max N"):
        assert way in message


def test_the_rank_can_be_left_to_the_data(command, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.gamma(0.4, 1, (60, 4)) @ rng.gamma(0.4, 1, (4, 80))
    np.save(tmp_path / "x.npy", X + 0.02 * X.mean() * rng.random(X.shape))
    words = ("fit", tmp_path / "x.npy", "-r", "auto", "-o", tmp_path / "out")
    code, out, message = command(*words)
    assert code == 0
    found = rank_path(np.load(tmp_path / "x.npy"), 20, tol=1e-4).assess()
    assert found.stands_out
    assert message == f"nmfmerge: {found} Fitting rank {found.rank}.\n"
    assert f"Rank: {found}" in out
    fit = folder.read(tmp_path / "out")
    assert fit.result.n_components == found.rank
    assert fit.about.settings["n_components"] == "auto"
    assert " -r auto" in fit.about.command
    assert "nothing to resume" in command(*words, "--resume")[1]


def test_small_data_do_not_decide_on_a_rank(command, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((9, 13)))
    code, _, message = command("fit", tmp_path / "x.npy", "-r", "auto")
    assert code == 1
    assert "9 × 13 data are too small to judge the rank by; give a number with -r N" in message


@pytest.mark.parametrize("rank", ["many", "3.5", "Auto"])
def test_a_rank_is_a_number_or_auto(command, file, rank):
    with pytest.raises(SystemExit):
        command("fit", file, "-r", rank)


def test_counts_are_advised_another_loss_unless_one_is_asked_for(command, tmp_path):
    file = tmp_path / "counts.npy"
    np.save(file, np.random.default_rng(0).poisson(3, (30, 40)))
    advice = "ask for it with --loss kl"
    assert command("info", file)[1].count(advice) == 1
    fit = ("fit", file, "-r", "2", "--no-compare", "--force", "-o", tmp_path / "out")
    assert command(*fit)[2].count(advice) == 1
    for words in (["--loss", "kl"], ["--loss", "frobenius"], ["--solver", "hals"]):
        assert advice not in command(*fit, *words)[2]
    np.save(file, np.random.default_rng(0).random((30, 40)))
    assert advice not in command("info", file)[1]
