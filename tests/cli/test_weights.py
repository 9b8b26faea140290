"""`--weights FILE` on the command line: the fits are those of `weights=` in Python."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite

from nmfmerge import consensus, metrics, nmf, nmf_merge, plot, rank_path
from nmfmerge.storage import folder


@pytest.fixture
def weights(X):
    """Weights of all sizes, a tenth of them zero."""
    rng = np.random.default_rng(0)
    return np.where(rng.random(X.shape) < 0.1, 0, 0.1 + rng.random(X.shape))


@pytest.fixture
def weights_file(tmp_path, weights):
    path = tmp_path / "weights.npy"
    np.save(path, weights)
    return path


def test_a_fit_with_weights_is_that_of_python(command, file, X, weights, weights_file, tmp_path):
    code, _, err = command("fit", file, "-r", 4, "--weights", weights_file, "-o", tmp_path / "out")
    expected = nmf_merge(X, 4, weights=weights)
    assert (code, err) == (0, "")
    fit = folder.read(tmp_path / "out")
    np.testing.assert_array_equal(fit.result.W, expected.W)
    np.testing.assert_array_equal(fit.result.H, expected.H)
    assert fit.result.fitting_error == expected.fitting_error
    assert fit.about.weights["file"] == str(weights_file)


def test_standard_nmf_beside_it_has_the_same_weights(command, file, X, weights_file, tmp_path):
    weights = np.load(weights_file)
    words = ["--weights", weights_file, "--starts", 2, "-o", tmp_path / "out"]
    command("fit", file, "-r", 4, *words)
    about = folder.read(tmp_path / "out").about
    standard = nmf(X, 4, weights=weights, n_init=2)
    assert about.standard["fitting_error"] == pytest.approx(standard.fitting_error, rel=1e-6)
    assert about.standard["fitting_error"] != nmf(X, 4, n_init=2).fitting_error
    at_4 = about.around["errors"][about.around["ranks"].index(4)]
    result = folder.read(tmp_path / "out").result
    weighted = metrics.fitting_error(X, result.W, result.H, weights=weights)
    assert at_4 == pytest.approx(weighted, rel=1e-3)


def test_a_path_with_weights_is_that_of_python(command, file, X, weights, weights_file, tmp_path):
    words = ["--max", 4, "--no-stability", "--weights", weights_file, "-o", tmp_path / "out"]
    assert command("path", file, *words)[0] == 0
    expected = rank_path(X, 4, weights=weights, stability=False)
    found = folder.read(tmp_path / "out").path
    np.testing.assert_array_equal(found.fitting_errors, expected.fitting_errors)
    np.testing.assert_array_equal(found[3].W, expected[3].W)


def test_a_consensus_with_weights_is_that_of_python(
    command, file, X, weights, weights_file, tmp_path
):
    words = ["--ranks", 3, "--fits", 3, "--tol", 0.01, "--weights", weights_file]
    code, _, err = command("consensus", file, *words, "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    found = folder.read(tmp_path / "out")
    expected = consensus(X, 3, weights=weights, n_fits=3, tol=0.01)
    np.testing.assert_array_equal(found.result.H, expected[3].H)
    assert found.about.weights["file"] == str(weights_file)
    assert f"--weights {weights_file}" in found.about.command


@pytest.mark.parametrize("side", ["rows", "columns", "columns, one a line"])
def test_a_line_may_have_one_weight(command, file, X, tmp_path, side):
    axis = 0 if side == "rows" else 1
    numbers = 0.5 + np.random.default_rng(1).random(X.shape[axis])
    expected = numbers.reshape((1, -1) if axis else (-1, 1))
    path = tmp_path / "weights.csv"
    np.savetxt(path, expected if side != "columns, one a line" else numbers, "%.17g", ",")
    words = ["-r", 3, "-k", 0, "--no-compare", "--weights", path, "-o", tmp_path / "out"]
    assert command("fit", file, *words)[0] == 0
    result = folder.read(tmp_path / "out").result
    np.testing.assert_array_equal(result.W, nmf(X, 3, weights=expected).W)


@pytest.mark.parametrize("suffix", [".npy", ".mtx"])
def test_weights_are_transposed_with_the_data(command, file, X, weights, tmp_path, suffix):
    path = tmp_path / f"weights{suffix}"
    if suffix == ".npy":
        np.save(path, weights)
    else:
        mmwrite(path, sp.coo_array(weights), precision=17)
    words = ["-r", 3, "-k", 0, "--no-compare", "--transpose", "--weights", path]
    assert command("fit", file, *words, "-o", tmp_path / "out")[0] == 0
    known = weights.T.copy() if suffix == ".npy" else sp.csr_array(weights.T)
    expected = nmf(X.T.copy(), 3, weights=known)
    found = folder.read(tmp_path / "out").result
    np.testing.assert_allclose(found.W, expected.W, rtol=1e-9, atol=1e-12)


def test_a_table_of_weights_is_read_as_the_table_of_data(command, tmp_path):
    rng = np.random.default_rng(2)
    X, weights = rng.random((12, 9)), 0.5 + rng.random((12, 9))
    for name, values in (("data", X), ("weights", weights)):
        lines = [";".join(map(repr, row)).replace(".", ",") for row in values.tolist()]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    words = ["--weights", tmp_path / "weights.csv", "--decimal", ",", "--no-header", "-k", 0]
    code, _, err = command("fit", tmp_path / "data.csv", "-r", 2, *words, "-o", tmp_path / "out")
    assert code in (0, 3), err
    result = folder.read(tmp_path / "out").result
    error = metrics.fitting_error(X, result.W, result.H, weights=weights)
    assert result.fitting_error == pytest.approx(error, rel=1e-9)


def refusal(command, file, path, values, *words):
    """What the command says of weights that it refuses."""
    np.save(path, values)
    code, out, err = command("fit", file, "-r", 3, "--weights", path, *words)
    assert (code, out) == (1, "")
    return err


def test_wrong_weights_are_refused(command, file, X, weights, tmp_path):
    path = tmp_path / "wrong.npy"
    err = refusal(command, file, path, weights.T.copy())
    assert f"--weights '{path}' is 60 × 40 and the data are 40 × 60; expected a weight" in err
    err = refusal(command, file, path, np.ones((7, 1)))
    assert "is 7 × 1 and the data are 40 × 60" in err
    err = refusal(command, file, path, -weights)
    assert "--weights has negative values; expected weights of at least 0" in err
    err = refusal(command, file, path, np.where(weights == 0, np.nan, weights))
    assert "--weights contains NaN or infinity" in err
    err = refusal(command, file, path, 0 * weights)
    assert "--weights is zero everywhere" in err
    _, _, err = command("fit", file, "-r", 3, "--weights", file)
    assert "is the data file itself" in err
    _, _, err = command("path", file, "--max", 3, "--weights", tmp_path / "none.npy")
    assert "none.npy was not found" in err
    assert not (tmp_path / "run.npy.nmf").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--drop-zero-rows"], "--drop-zero-rows cannot be used with --weights"),
        (["--drop-zero-columns"], "--drop-zero-columns cannot be used with --weights"),
        (["--memory", "8GB"], "--memory 8GB cannot be used with --weights"),
        (["--device", "cuda"], "--device cuda cannot be used with --weights"),
    ],
)
def test_options_without_weights_are_refused(command, file, weights_file, words, said):
    code, _, err = command("fit", file, "-r", 3, "--weights", weights_file, *words)
    assert code == 1
    assert said in err


def test_several_arrays_and_other_names_are_refused(command, file, weights, tmp_path):
    np.savez(tmp_path / "two.npz", a=weights, b=weights)
    code, _, err = command("fit", file, "-r", 3, "--weights", tmp_path / "two.npz")
    assert code == 1
    assert "two.npz holds several arrays: store the weights as the only one of a file" in err
    for name, genes in (("data", "xyz"), ("weights", "yxz")):
        rows = [f"{gene},{k + 1},2,{4 - k}" for k, gene in enumerate(genes)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["gene,a,b,c", *rows]) + "\n")
    path = tmp_path / "weights.csv"
    code, _, err = command("fit", tmp_path / "data.csv", "-r", 1, "--weights", path)
    assert code == 1
    assert "data.csv, 'y' where that has 'x': put them in the same order" in err
    for name, first in (("data", 100), ("weights", 101)):
        rows = [f"{first + k},{k + 1},2,{4 - k}" for k in range(3)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["mz,0.5,1,1.5", *rows]) + "\n")
    code, _, err = command("fit", tmp_path / "data.csv", "-r", 1, "--weights", path)
    assert code == 1
    assert "data.csv, '101' where that has '100': put them in the same order" in err
    path.write_text("1,2,3\n4,5,6\n7,8,9\n")  # without names
    words = ["-r", 1, "--weights", path, "-o", tmp_path / "out"]
    assert command("fit", tmp_path / "data.csv", *words)[0] == 0


def test_other_weights_are_another_fit(command, file, weights, weights_file, tmp_path):
    words = ["fit", file, "-r", 3, "-k", 0, "--no-compare", "-o", tmp_path / "out"]
    assert command(*words, "--weights", weights_file)[0] == 0
    again = command(*words, "--weights", weights_file, "--resume")
    assert again[0] == 0
    assert "is finished" in again[1]
    for other in ([], ["--weights", tmp_path / "other.npy"]):
        np.save(tmp_path / "other.npy", weights + 1)
        code, _, err = command(*words, *other, "--resume")
        assert code == 1
        assert "is another fit (other data or weights, or read otherwise)" in err


def test_the_stored_command_repeats_the_fit(command, file, weights_file, tmp_path):
    words = ["-r", 3, "-k", 0, "--no-compare", "--weights", weights_file]
    command("fit", file, *words, "-o", tmp_path / "one")
    stored = json.loads((tmp_path / "one/fit.json").read_text())["command"].split()
    command(*stored[1:], "-o", tmp_path / "two")
    one, two = (folder.read(tmp_path / name) for name in ("one", "two"))
    np.testing.assert_array_equal(one.result.W, two.result.W)
    assert one.about.weights == two.about.weights


def test_merge_compare_and_explore_know_the_weights(
    command, file, X, weights, weights_file, tmp_path
):
    words = ["fit", file, "-r", 4, "-k", 0, "--no-compare"]
    command(*words, "--weights", weights_file, "-o", tmp_path / "out")
    assert command("merge", tmp_path / "out", "-r", 3, "-o", tmp_path / "merged")[0] == 0
    merged = folder.read(tmp_path / "merged")
    error = metrics.fitting_error(X, merged.result.W, merged.result.H, weights=weights)
    assert merged.result.fitting_error == pytest.approx(error, rel=1e-9)
    command(*words, "-o", tmp_path / "plain")
    out = command("compare", tmp_path / "out", tmp_path / "plain")[1]
    assert "careful: entries count differently in the two fits (--weights)" in out
    assert "careful" not in command("compare", tmp_path / "out", tmp_path / "out")[1]
    code, _, err = command("explore", tmp_path / "out", "--no-browser", "--weights", weights_file)
    assert code == 1
    assert f"--weights '{weights_file}' is for data" in err
    np.save(weights_file, weights + 1)
    code, _, err = command("merge", tmp_path / "out", "-r", 2)
    assert code == 1
    assert "are not there unchanged: put the file back" in err


def test_the_report_names_the_weights(command, file, weights_file, tmp_path, drawn):
    words = ["-r", 3, "-k", 0, "--no-compare", "--weights", weights_file]
    assert command("fit", file, *words, "-o", tmp_path / "out")[0] == 0
    page = (tmp_path / "out/report.html").read_text()
    assert "Every entry counts with its weight" in page
    assert f"<dt>Weights</dt><dd>{weights_file}</dd>" in page
    assert folder.read(tmp_path / "out").about.weights["sha256"] in page


def test_the_report_is_drawn_again_with_the_weights(
    command, file, weights_file, tmp_path, monkeypatch, drawn
):
    words = ["-r", 3, "-k", 0, "--no-compare", "--weights", weights_file]
    seen = []
    original = plot.reconstruction
    monkeypatch.setattr(
        plot, "reconstruction", lambda *fit, **entries: seen.append(entries) or original(*fit)
    )
    assert command("fit", file, *words, "-o", tmp_path / "out")[0] == 0
    assert "written to" in command("report", tmp_path / "out")[1]
    first, again = (entries["weights"] for entries in seen)
    np.testing.assert_array_equal(first, np.load(weights_file))
    np.testing.assert_array_equal(again, first)
    weights_file.unlink()
    code, out, _ = command("report", tmp_path / "out")
    assert (code, len(seen)) == (0, 2)
    assert "(without the residual: the weights of the fit" in out
