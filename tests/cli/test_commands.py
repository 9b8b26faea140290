import json
import re
import subprocess
import sys

import numpy as np
import pytest

from nmfmerge import datasets, merge_components, metrics, nmf, nmf_merge
from nmfmerge.cli import COMMANDS
from nmfmerge.storage import folder


@pytest.fixture
def fitted(command, file, tmp_path):
    """A folder with a fit of six components."""
    assert command("fit", file, "-r", 6, "-o", tmp_path / "six")[0] == 0
    return tmp_path / "six"


def test_demo_compares_and_writes_a_report(command, tmp_path, drawn):
    code, out, err = command("demo", "-o", tmp_path / "demo")
    assert code == 0
    assert err == ""
    fit = folder.read(tmp_path / "demo")
    data = datasets.lcms_like()
    both = [nmf(data.X, 17, n_init=4, return_all=True), nmf_merge(data.X, 17, return_all=True)]
    standard, merged = ([one.fitting_error for one in found.solutions] for found in both)
    assert fit.about.compare == {"standard_errors": standard, "merge_errors": merged}
    assert fit.about.command == "nmfmerge demo"
    np.testing.assert_array_equal(fit.result.W, both[1].W)
    for i, start in enumerate(both[1].starts):
        found = [_compounds(data, result.solutions[i]) for result in both]
        errors = f"{standard[i]:>12.4f}{merged[i]:>12.4f}"
        assert f"{start.name:<17}{errors}{found[0]:>12}{found[1]:>12}\n" in out
    for name, errors in (("standard", standard), ("NMF-Merge", merged)):
        assert f"{name:<10} best {min(errors):.4f} %" in out
    lower = sum(a - b > 1e-3 for a, b in zip(standard, merged, strict=True))
    higher = sum(b - a > 1e-3 for a, b in zip(standard, merged, strict=True))
    assert f"ended lower from {lower} of 4 starts, higher from {higher}." in out
    assert f"{len(both[1].found_always())} of 17 components are found from every start" in out
    page = (tmp_path / "demo/report.html").read_text()
    assert 'id="gain"' in page
    assert 'id="starts"' in page


def _compounds(data, result):
    return np.sum(metrics.match_components(data.W, result.W)[1] > 0.95)


def test_demo_of_one_start(command, tmp_path):
    code, out, _ = command("demo", "--starts", 1, "-o", tmp_path / "demo")
    assert code == 0
    assert "of 1 start, higher" in out
    assert "nndsvd" in out
    assert folder.read(tmp_path / "demo").about.command == "nmfmerge demo --starts 1"
    assert command("demo", "--starts", 0, "-o", tmp_path / "none")[0] == 1


def test_report_is_written_again_with_the_data_or_without(command, drawn, fitted, file):
    page = fitted / "report.html"
    before = page.read_text()
    page.unlink()
    code, out, _ = command("report", fitted)
    assert code == 0
    assert "without" not in out
    assert page.read_text() == before
    file.unlink()
    code, out, _ = command("report", fitted)
    assert code == 0
    assert "without the residual" in out
    assert page.read_text() != before


def test_report_finds_data_that_have_moved(command, fitted, file, tmp_path, X):
    file.rename(tmp_path / "moved.npy")
    assert "without" not in command("report", fitted, "--data", tmp_path / "moved.npy")[1]
    np.save(tmp_path / "other.npy", 2 * X)
    code, _, err = command("report", fitted, "--data", tmp_path / "other.npy")
    assert code == 1
    assert "contents differ" in err


def test_merge_goes_down_to_fewer_components_and_polishes(command, fitted, X):
    code, out, _ = command("merge", fitted, "-r", 4, "--json")
    outcome = json.loads(out)
    assert code == 0
    before, after = folder.read(fitted).result, folder.read(fitted.with_name("six-4")).result
    W, H, tree = merge_components(before.W, before.H, 4)
    np.testing.assert_array_equal(after.merges.pairs, tree.pairs)
    assert outcome["penalties"] == pytest.approx(tree.penalties)
    assert after.n_components == 4
    assert before.fitting_error < after.fitting_error <= metrics.fitting_error(X, W, H)


def test_merge_needs_to_know_where_to_stop(command, fitted):
    code, _, err = command("merge", fitted)
    assert code == 1
    assert "--max-penalty" in err
    penalties = merge_components(*_factors(fitted), 1)[2].penalties
    code, out, _ = command("merge", fitted, "--max-penalty", 1.01 * penalties[1], "--json")
    assert code == 0
    assert json.loads(out)["n_components"] == 4


def _factors(path):
    result = folder.read(path).result
    return result.W, result.H


def test_merge_goes_down_to_one_component_and_tells_the_truth(command, fitted):
    assert command("merge", fitted, "-r", 1)[0] == 0
    fit = folder.read(fitted.with_name("six-1"))
    assert fit.result.n_components == 1
    assert fit.about.settings["n_components"] == 1
    assert fit.about.command.endswith("six -r 1 --tol 0.0001")


def test_the_demos_folder_can_be_worked_with(command, tmp_path, drawn):
    command("demo", "--starts", 1, "-o", tmp_path / "demo")
    page = (tmp_path / "demo/report.html").read_text()
    assert command("report", tmp_path / "demo")[0] == 0
    assert (tmp_path / "demo/report.html").read_text() == page
    assert command("merge", tmp_path / "demo", "-r", 16)[0] == 0


def test_merge_without_the_data_says_what_to_do(command, fitted, file):
    file.unlink()
    code, _, err = command("merge", fitted, "-r", 4)
    assert code == 1
    assert "--data" in err


def test_compare_matches_components_one_to_one(command, fitted, file, tmp_path):
    command("fit", file, "-r", 6, "--init", "random", "--seed", 3, "-o", tmp_path / "other")
    code, out, _ = command("compare", fitted, tmp_path / "other", "--json")
    outcome = json.loads(out)
    first, second = _factors(fitted), _factors(tmp_path / "other")
    assert code == 0
    order, similarity = metrics.match_components(first[0], second[0])
    assert outcome["matched"] == (order + 1).tolist()
    assert outcome["similarity"] == pytest.approx(similarity)
    assert outcome["subspace_mismatch"] == metrics.subspace_mismatch(first[0], second[0])
    assert outcome["same_data"] is True
    figure = tmp_path / "figure.png"
    code, out, _ = command("compare", fitted, fitted, "--figure", figure)
    assert "6 of 6 with a cosine above 0.95, least 1.0000" in out
    assert out.count(", best of 4 starts\n") == 2
    command("fit", file, "-r", 6, "--starts", 1, "-o", tmp_path / "one")
    code, out, _ = command("compare", fitted, tmp_path / "one")
    assert f"{fitted}, best of 4 starts\n" in out
    assert f"{tmp_path / 'one'}\n" in out
    assert json.loads(command("compare", fitted, tmp_path / "one", "--json")[1])["n_starts"] == [
        4, 1,
    ]  # fmt: skip
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_compare_refuses_what_cannot_be_compared(command, fitted, file, tmp_path):
    command("fit", file, "-r", 4, "-o", tmp_path / "four")
    command("fit", file, "-r", 6, "--transpose", "-o", tmp_path / "turned")
    for other, said in (("four", "merge one down first"), ("turned", "of the same data"),
                        ("none", "holds no fit")):  # fmt: skip
        code, _, err = command("compare", fitted, tmp_path / other)
        assert code == 1
        assert said in err


def test_a_damaged_folder_is_one_sentence(command, fitted):
    (fitted / "factors.npz").write_bytes(b"cut off")
    code, _, err = command("report", fitted)
    assert code == 1
    assert "is damaged" in err
    assert err.count("\n") == 1


def test_info_shows_names_of_rows_and_columns(command, tmp_path):
    (tmp_path / "x.csv").write_text("gene,c1,c2,c3\nTP53,1,2,3\nMYC,4,5,6\n")
    code, out, _ = command("info", tmp_path / "x.csv")
    assert code == 0
    lines = {tuple(line.split(maxsplit=2)) for line in out.splitlines()}
    assert {("row", "names", "TP53, MYC"), ("column", "names", "c1, c2, c3")} <= lines
    known = json.loads(command("info", tmp_path / "x.csv", "--json")[1])
    assert known["row_names"] == "TP53, MYC"


def test_info_says_what_a_file_holds_and_what_is_wrong(command, tmp_path):
    X = np.ones((3, 4))
    X[1, 2] = -1
    np.save(tmp_path / "x.npy", X)
    code, out, _ = command("info", tmp_path / "x.npy")
    assert code == 0
    assert "[3, 4]" in out
    assert "careful:" in out
    known = json.loads(command("info", tmp_path / "x.npy", "--json")[1])
    assert known["shape"] == [3, 4]
    assert known["negative"] == 1
    assert len(known["problems"]) == 1


def test_help_names_every_command_quickly():
    out = subprocess.run(
        [sys.executable, "-m", "nmfmerge", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert all(re.search(rf"^    {name}\b", out, re.MULTILINE) for name in COMMANDS)


def test_drawing_library_is_loaded_only_where_it_draws(file):
    code = (
        "import sys; from nmfmerge.cli import main; "
        f"main(['info', {str(file)!r}]); print('matplotlib' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip().endswith("False")


def test_a_merged_fit_is_compared_with_the_ranks_around_it(file, command, tmp_path):
    """What was measured of the fit that it comes from says nothing of it."""
    assert command("fit", file, "-r", 5, "--starts", 2, "-o", tmp_path / "five")[0] == 0
    assert command("merge", tmp_path / "five", "-r", 3, "-o", tmp_path / "three")[0] == 0
    before, after = (folder.read(tmp_path / name) for name in ("five", "three"))
    assert before.about.standard is not None
    assert after.about.standard is None
    near = after.about.around
    errors = dict(zip(near["ranks"], near["errors"], strict=True))
    assert errors[4] <= after.result.fitting_error <= errors[2]


def test_a_data_file_that_is_not_there_is_told(file, command, tmp_path):
    assert (
        command("fit", file, "-r", 3, "--starts", 1, "--no-report", "-o", tmp_path / "out")[0] == 0
    )
    for name in ("report", "export", "merge"):
        more = ("-r", 2) if name == "merge" else ()
        code, _, message = command(name, tmp_path / "out", *more, "--data", tmp_path / "none.npy")
        assert code == 1
        assert "none.npy was not found: check its name and folder" in message


def test_resuming_a_finished_fit_says_how_to_write_other_files(file, command, tmp_path):
    words = ("fit", file, "-r", 3, "--starts", 1, "--no-report", "-o", tmp_path / "out")
    assert command(*words)[0] == 0
    code, told, _ = command(*words, "--resume", "--tables", "xlsx")
    assert code == 0
    assert "nothing to resume" in told
    assert f"nmfmerge export {tmp_path / 'out'} --tables xlsx" in told


def loaded_by(*words):
    """The modules that the command has loaded in the end, in a process of its own."""
    code = f"""
import sys
from nmfmerge.cli import main
try:
    main({[str(word) for word in words]!r})
finally:
    print(*sys.modules)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(out.stdout.splitlines()[-1].split())


LARGE = {"bokeh", "dask", "h5py", "matplotlib", "pandas", "scipy.stats", "sklearn", "torch", "zarr"}


def test_the_version_is_said_without_loading_the_numerics():
    assert not loaded_by("--version") & {*LARGE, "numpy", "numba", "scipy", "threadpoolctl"}


def test_a_command_loads_what_it_needs(file, tmp_path):
    out = tmp_path / "out"
    fit = loaded_by("fit", file, "-r", 4, "--no-report", "-o", out)
    assert "numba" in fit
    assert not fit & {*LARGE, "nmfmerge.report", "nmfmerge.explore.session", "scipy.optimize"}
    assert not loaded_by("info", file) & {*LARGE, "nmfmerge.report", "scipy.optimize"}
    report = loaded_by("report", out)
    assert "matplotlib" in report
    assert not report & {*LARGE - {"matplotlib"}, "matplotlib.pyplot"}
