"""What stands where a fit is to be written: files that are not ours, links, locks, a full disk."""

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from nmfmerge import datasets, nmf_merge
from nmfmerge.cli import fit as fit_command
from nmfmerge.cli.unfinished import Unfinished
from nmfmerge.storage import folder, manifest
from nmfmerge.storage.files import Lock

MODES = ([], ["--resume"], ["--force"])


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def never_fitted(monkeypatch):
    """Fails a test whose command comes as far as the fit."""
    monkeypatch.setattr(fit_command, "nmf_merge", lambda *_, **__: pytest.fail("it was fitted"))


def interrupt(command, file, out, monkeypatch, *words):
    """Leave the folder of an unfinished run."""
    with monkeypatch.context() as context:
        context.setattr(folder, "_put_in_place", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            command("fit", file, "-r", 4, "-o", out, *words)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("entry", ["notes.txt", "folder", "link", "checkpoint.npz/folder"])
def test_an_unfinished_folder_with_files_of_the_user_is_refused(
    mode, entry, command, file, out, never_fitted
):
    unfinished = out.with_name("out.unfinished")
    unfinished.mkdir()
    if entry == "notes.txt":
        (unfinished / entry).write_text("years")
    elif entry == "link":
        (unfinished / entry).symlink_to(file)
    else:
        (unfinished / entry).mkdir(parents=True)
    before = sorted(path.name for path in unfinished.iterdir())
    code, _, err = command("fit", file, "-r", 4, "-o", out, *mode)
    assert code == 1
    assert f"not of a run ({before[0]})" in err
    assert sorted(path.name for path in unfinished.iterdir()) == before


@pytest.mark.parametrize("mode", MODES)
def test_an_unfinished_folder_that_is_a_link_is_refused(
    mode, command, file, out, tmp_path, never_fitted
):
    (tmp_path / "target").mkdir()
    out.with_name("out.unfinished").symlink_to(tmp_path / "target")
    code, _, err = command("fit", file, "-r", 4, "-o", out, *mode)
    assert code == 1
    assert "out.unfinished is a link" in err
    assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.parametrize("mode", [["--force"], ["--resume", "--max-iter", 500]])
@pytest.mark.parametrize("name", ["notes.txt", "figures/mine.png", "thesis/chapter.tex"])
def test_a_fit_folder_with_files_of_the_user_is_refused_before_the_fit(
    mode, name, command, file, out, monkeypatch
):
    command("fit", file, "-r", 4, "-k", 0, "-o", out, "--max-iter", 5)
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("years")
    monkeypatch.setattr(fit_command, "nmf_merge", lambda *_, **__: pytest.fail("it was fitted"))
    code, _, err = command("fit", file, "-r", 4, "-k", 0, "-o", out, *mode)
    assert code == 1
    assert f"not of the fit, and would be lost ({name.split('/')[0]}" in err
    assert (out / name).read_text() == "years"


@pytest.mark.parametrize("name", ["notes.txt", "figures/mine.png", "thesis/chapter.tex"])
def test_files_put_into_a_fit_folder_while_a_fit_runs_are_kept(
    name, command, file, out, monkeypatch
):
    command("fit", file, "-r", 4, "-o", out)

    def meanwhile(*arguments, **settings):
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text("years")
        return nmf_merge(*arguments, **settings)

    monkeypatch.setattr(fit_command, "nmf_merge", meanwhile)
    assert command("fit", file, "-r", 5, "-o", out, "--force")[0] == 0
    assert (out / name).read_text() == "years"
    assert folder.read(out).result.n_components == 5


def test_everything_that_is_written_counts_as_ours(command, file, out, drawn):
    command("fit", file, "-r", 5, "-o", out)
    chosen = out.with_name("chosen")
    command("path", file, "--max", 5, "-o", chosen)
    command("report", chosen)
    command("export", chosen, "--tables", "parquet")
    assert (chosen / "W.parquet").exists()
    assert manifest.not_ours(out) == manifest.not_ours(chosen) == []
    (out / ".report.html.nmfmerge-new").write_text("killed while it was written")
    assert manifest.not_ours(out) == []


@pytest.mark.parametrize(
    ("name", "mode"),
    [("fit", []), ("fit", ["--force"]), ("fit", ["--resume"]), ("demo", ["--force"]),
     ("merge", ["--force"])],
)  # fmt: skip
def test_a_linked_output_is_refused_before_the_fit(
    name, mode, command, file, out, tmp_path, monkeypatch
):
    command("fit", file, "-r", 4, "-k", 0, "-o", tmp_path / "real", "--max-iter", 5)
    out.symlink_to(tmp_path / "real")
    before = (tmp_path / "real/fit.json").read_bytes()
    words = {"fit": [file, "-r", 4, "-k", 0], "demo": [], "merge": [tmp_path / "real", "-r", 3]}[
        name
    ]
    if "--resume" in mode:
        (tmp_path / "real.unfinished").rename(tmp_path / "out.unfinished")
    monkeypatch.setattr("nmfmerge.method.run.Run.through", pytest.fail)
    code, _, err = command(name, *words, "-o", out, *mode)
    assert code == 1
    assert "is a link to" in err
    assert (tmp_path / "real/fit.json").read_bytes() == before


def test_missing_parents_of_the_output_are_made(command, file, tmp_path):
    assert command("fit", file, "-r", 4, "-o", tmp_path / "a/b/out")[0] == 0
    assert folder.is_fit(tmp_path / "a/b/out")
    assert command("merge", tmp_path / "a/b/out", "-r", 3, "-o", tmp_path / "c/out")[0] == 0


def test_an_empty_folder_is_written_into(command, file, out):
    out.mkdir()
    assert command("fit", file, "-r", 4, "-o", out)[0] == 0


@pytest.mark.parametrize("place", ["/proc/out", "/dev/null/out", "x" * 250])
@pytest.mark.parametrize("name", ["fit", "demo", "merge"])
def test_an_output_that_cannot_be_written_is_found_before_the_fit(
    name, place, command, file, tmp_path, monkeypatch
):
    if place.startswith("/") and not os.path.exists(os.path.dirname(place)):
        pytest.skip("no such place on this system")
    command("fit", file, "-r", 4, "-o", tmp_path / "four")
    words = {"fit": [file, "-r", 4], "demo": [], "merge": [tmp_path / "four", "-r", 3]}[name]
    monkeypatch.setattr("nmfmerge.method.run.Run.through", pytest.fail)
    code, _, err = command(name, *words, "-o", tmp_path / place)
    assert code == 1
    assert "cannot be written (" in err
    assert "-o" in err


def test_two_runs_do_not_share_a_folder(command, file, out, monkeypatch):
    holder = Lock(Unfinished(out).folder / "run")
    for mode in MODES:
        holder.path.parent.mkdir(exist_ok=True)
        holder.acquire()
        code, _, err = command("fit", file, "-r", 4, "-o", out, *mode)
        assert code == 1
        assert f"out.unfinished is in use by another run (process {os.getpid()})" in err
        holder.release()
        assert not out.exists()
    assert command("fit", file, "-r", 4, "-o", out)[0] == 0


def test_of_processes_at_the_same_time_one_writes_and_none_crashes(file, tmp_path):
    np.save(file, datasets.lcms_like(200, 300, 10).X)
    words = ["fit", "run.npy", "-r", "8", "-o", "out", "--resume", "--no-report", "--tol", "1e-6"]
    processes = [
        subprocess.Popen([sys.executable, "-m", "nmfmerge", *words], cwd=tmp_path,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]  # fmt: skip
    errors = [process.communicate()[1] for process in processes]
    codes = [process.returncode for process in processes]
    assert 0 in codes
    for code, error in zip(codes, errors, strict=True):
        assert (code, error) == (0, "") or (code == 1 and "in use by another run" in error)
    result = folder.read(tmp_path / "out").result
    assert result.converged
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run.npy"]


def test_a_full_disk_during_the_run_does_not_end_it(command, file, out, monkeypatch):
    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("nmfmerge.storage.state_file.replacing", full)
    code, _, err = command("fit", file, "-r", 4, "-o", out)
    assert code == 0
    assert err.count("could not be saved (No space left on device); the run continues") == 1
    assert err.count("\n") == 1
    assert folder.read(out).result.converged


def test_a_damaged_checkpoint_says_how_to_begin_anew(command, file, out, monkeypatch):
    interrupt(command, file, out, monkeypatch)
    (out.with_name("out.unfinished") / "checkpoint.npz").write_bytes(b"cut off")
    code, _, err = command("fit", file, "-r", 4, "-o", out, "--resume")
    assert code == 1
    assert "is damaged" in err
    assert "--force" in err
    assert command("fit", file, "-r", 4, "-o", out, "--force")[0] == 0


def test_the_run_of_another_command_is_told_by_its_options(command, file, out, monkeypatch):
    interrupt(command, file, out, monkeypatch, "--seed", 7)
    for words, said in (
        (["-r", 5, "--seed", 7], "(--rank 4, now 5)"),
        (["-r", 4, "--seed", 8], "(--seed 7, now 8)"),
        (["-r", 4, "--seed", 7, "--starts", 2], "(--starts 4, now 2)"),
        (["-r", 4, "--seed", 7, "--init", "random"], "(--init nndsvd, now random)"),
        (["-r", 4, "--seed", 7, "--transpose"], "(other data or weights, or read otherwise)"),
    ):
        code, _, err = command("fit", file, *words, "-o", out, "--resume")
        assert code == 1
        assert f"another command {said}" in err
    np.save(file, np.load(file)[::-1])
    code, _, err = command("fit", file, "-r", 4, "--seed", 7, "-o", out, "--resume")
    assert code == 1
    assert "other data" in err


def test_the_demos_folder_is_another_fit(command, file, tmp_path):
    command("demo", "--starts", 1, "-o", tmp_path / "demo")
    code, _, err = command("fit", file, "-r", 4, "-o", tmp_path / "demo", "--resume")
    assert code == 1
    assert "is another fit" in err


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names there are always text")
def test_names_that_are_not_text(command, file, tmp_path, monkeypatch, drawn):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"nm\xff\x1b.npy")
    file.rename(tmp_path / name)
    assert command("fit", name, "-r", 4)[0] == 0
    output = tmp_path / f"{name}.nmf"
    assert folder.read(output).about.file == str(tmp_path / name)
    assert "nm\ufffd\ufffd.npy" in (output / "report.html").read_text(encoding="utf-8")
    assert command("fit", name, "-r", 4, "--resume")[0] == 0
    assert command("fit", name, "-r", 4, "--resume", "--json")[0] == 0
    code, out, err = command("fit", name, "-r", 4, "--json")
    assert code == 1
    assert "--force" in err
    assert json.loads(out)["error"].startswith(name)
    assert command("merge", output, "-r", 3)[0] == 0


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names there are always text")
def test_pictures_with_names_that_are_not_text(command, tmp_path, drawn):
    PIL = pytest.importorskip("PIL.Image")
    (tmp_path / "pictures").mkdir()
    rng = np.random.default_rng(0)
    for i in range(4):
        name = os.fsdecode(b"p\xff%d.png" % i)
        PIL.fromarray(rng.integers(0, 255, (6, 7), dtype=np.uint8)).save(
            tmp_path / "pictures" / name
        )
    code, _, err = command("fit", tmp_path / "pictures", "-r", 2, "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    assert b"p\xff2" in (tmp_path / "out/H.csv").read_bytes()
    assert "p\ufffd" in (tmp_path / "out/report.html").read_text(encoding="utf-8")


def test_files_of_a_user_are_not_ours_by_a_like_name(file, command, tmp_path):
    out = tmp_path / "out"
    assert command("fit", file, "-r", 3, "--starts", 1, "--no-report", "-o", out)[0] == 0
    for name in ("top-secret.csv", "audio/component-01-edited.wav", "mine.parquet"):
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text("mine")
        code, _, message = command("fit", file, "-r", 3, "--no-report", "-o", out, "--force")
        assert code == 1
        assert name.split("/")[0] in message
        assert (out / name).read_text() == "mine"
        (out / name).unlink()
    (out / "audio").rmdir()
    assert command("fit", file, "-r", 3, "--no-report", "-o", out, "--force")[0] == 0


def test_tables_of_names_are_ours(tmp_path, command):
    table = tmp_path / "counts.csv"
    lines = [f"gene{i},{i % 3 + 1},{i % 5},{7 - i % 7}" for i in range(12)]
    table.write_text("\n".join(["gene,a,b,c", *lines]))
    out = tmp_path / "out"
    assert command("fit", table, "-r", 2, "--no-report", "-o", out)[0] == 0
    assert (out / "top-genes.csv").exists()
    assert manifest.not_ours(out) == []
    assert command("fit", table, "-r", 2, "--no-report", "-o", out, "--force")[0] == 0


@pytest.mark.parametrize("error", [RuntimeError("no ink"), KeyboardInterrupt()])
def test_a_fit_without_a_report_is_not_lost(file, command, tmp_path, monkeypatch, error):
    def fails(*arguments):
        raise error

    monkeypatch.setattr("nmfmerge.cli.common.pages", fails)
    out = tmp_path / "out"
    code, told, message = command("fit", file, "-r", 3, "--starts", 1, "-o", out)
    assert code == 0
    assert folder.read(out).result.n_components == 3
    assert "the fit is written without it (nmfmerge report" in message
    assert f"written to {out}" in told


def test_data_of_any_size_have_a_report(tmp_path, command, drawn):
    X = np.random.default_rng(0).random((20, 15)) * 1e200
    np.save(tmp_path / "huge.npy", X)
    out = tmp_path / "out"
    code, _, message = command("fit", tmp_path / "huge.npy", "-r", 2, "--starts", 2, "-o", out)
    assert (code, message) == (0, "")
    assert (out / "report.html").exists()
