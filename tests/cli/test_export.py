"""What is written beside a fit, with it or later: tables, spectra, sound."""

import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest
import soundfile

from nmfmerge import datasets
from nmfmerge.cli import fit as fit_command
from nmfmerge.storage import folder, manifest
from tests.io.test_lcms import write_mzml

RATE = 8000


@pytest.fixture
def song(tmp_path):
    """Two tones that swell, in stereo."""
    t = np.arange(RATE) / RATE
    low, high = (
        np.sin(2 * np.pi * f * t) * np.sin(2 * np.pi * swell * t) ** 2 / 3
        for f, swell in ((500, 1.0), (1700, 2.5))
    )
    soundfile.write(tmp_path / "song.wav", np.column_stack([low + high, low]), RATE)
    return tmp_path / "song.wav"


def names_in(path):
    return {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()}


def assert_stems(song, out):
    sound, _ = soundfile.read(song, always_2d=True)
    files = sorted((out / "audio").glob("*.wav"))
    total = sum(soundfile.read(file, always_2d=True)[0] for file in files)
    np.testing.assert_allclose(total, sound, rtol=0, atol=1e-6)
    return [file.stem for file in files if file.stem != "rest"]


def test_a_fit_writes_the_sound_of_each_component(command, song, tmp_path):
    out = tmp_path / "out"
    code, _, err = command("fit", song, "-r", 2, "--audio", "-o", out)
    assert (code, err) == (0, "")
    assert assert_stems(song, out) == ["component-01", "component-02"]
    assert manifest.not_ours(out) == []
    assert "--audio" in folder.read(out).about.command


def test_without_the_option_there_is_no_sound(command, song, tmp_path):
    command("fit", song, "-r", 2, "-o", tmp_path / "out")
    assert not (tmp_path / "out/audio").exists()


def test_sound_of_what_is_no_recording_is_refused_before_the_fit(
    command, file, tmp_path, monkeypatch
):
    monkeypatch.setattr(fit_command, "nmf_merge", lambda *_, **__: pytest.fail("it was fitted"))
    (tmp_path / "x.csv").write_text("frequency,1,2,3\n100,1.5,2,3\n200,3,4,5\n300,1,1,1\n")
    for other in (file, tmp_path / "x.csv"):
        code, _, err = command("fit", other, "-r", 2, "--audio", "-o", tmp_path / "out")
        assert code == 1
        said = f"nmfmerge: --audio needs a recording, a .wav, .flac or .ogg file, and {other} is "
        assert err == said + "none\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("kind", "written"),
    [("csv", {"W.csv", "H.csv", "components.csv", "starts.csv", "merges.csv"}),
     ("parquet", {f"{n}.parquet" for n in ("W", "H", "components", "starts", "merges")}),
     ("xlsx", {"tables.xlsx"})],
)  # fmt: skip
def test_tables_have_the_format_that_is_asked_for(command, file, tmp_path, kind, written):
    out = tmp_path / "out"
    assert command("fit", file, "-r", 4, "--tables", kind, "--no-report", "-o", out)[0] == 0
    always = {"fit.json", "factors.npz", "history.npz", "axes.npz"}
    assert names_in(out) == written | always
    assert manifest.not_ours(out) == []
    assert ("--tables" in folder.read(out).about.command) == (kind != "csv")
    assert command("merge", out, "-r", 3, "--tables", kind, "-o", tmp_path / "three")[0] == 0
    assert written - names_in(tmp_path / "three") <= {f"starts.{kind}"}
    chosen = tmp_path / "chosen"
    words = ("--max", 4, "--no-stability", "--tables", kind, "--no-report", "-o", chosen)
    assert command("path", file, *words)[0] == 0
    assert manifest.not_ours(chosen) == []
    if kind == "xlsx":
        path = pd.read_excel(chosen / "tables.xlsx", sheet_name="path")
    else:
        path = getattr(pd, f"read_{kind}")(chosen / f"path.{kind}")
    assert list(path["rank"]) == [1, 2, 3, 4]


def test_a_table_that_no_sheet_holds_is_refused_before_the_fit(
    command, file, tmp_path, monkeypatch
):
    monkeypatch.setattr(fit_command, "nmf_merge", lambda *_, **__: pytest.fail("it was fitted"))
    monkeypatch.setattr("nmfmerge.storage.tables._MOST_COLUMNS", 4)
    code, _, err = command("fit", file, "-r", 4, "--tables", "xlsx", "-o", tmp_path / "out")
    assert code == 1
    assert "--tables 'xlsx' cannot hold 5 columns" in err


def test_exports_are_written_later(command, song, tmp_path):
    out = tmp_path / "out"
    command("fit", song, "-r", 2, "-o", out)
    before = {name: (out / name).read_bytes() for name in names_in(out)}
    code, text, err = command("export", out, "--audio", "--tables", "xlsx")
    assert (code, err) == (0, "")
    assert assert_stems(song, out) == ["component-01", "component-02"]
    listed = json.loads(before.pop("fit.json"))["files"]
    assert set(json.loads((out / "fit.json").read_text())["files"]) > set(listed)
    for name, content in before.items():
        assert (out / name).read_bytes() == content
    assert "tables.xlsx" in text
    assert "audio/component-02.wav" in text
    assert manifest.not_ours(out) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "song.wav"]
    code, text, _ = command("export", out, "--json")
    said = json.loads(text)
    assert said["left_out"] == {}
    assert said["files"] == ["H.csv", "W.csv", "components.csv", "merges.csv", "starts.csv"]


def test_exports_of_merged_fits_and_of_paths(command, song, tmp_path):
    command("fit", song, "-r", 3, "-o", tmp_path / "three")
    command("merge", tmp_path / "three", "-r", 2, "-o", tmp_path / "two")
    command("path", song, "--max", 3, "-r", 2, "--no-stability", "-o", tmp_path / "path")
    for name in ("two", "path"):
        assert command("export", tmp_path / name, "--audio")[0] == 0
        assert assert_stems(song, tmp_path / name) == ["component-01", "component-02"]


def test_what_is_there_is_replaced(command, file, tmp_path):
    out = tmp_path / "out"
    command("fit", file, "-r", 4, "-o", out)
    right = (out / "components.csv").read_bytes()
    (out / "components.csv").write_text("wrong")
    (out / "notes.txt").write_text("years")
    assert command("export", out)[0] == 0
    assert (out / "components.csv").read_bytes() == right
    assert (out / "notes.txt").read_text() == "years"


def test_a_failed_export_leaves_the_folder_as_it_is(command, file, tmp_path, monkeypatch):
    out = tmp_path / "out"
    command("fit", file, "-r", 4, "-o", out)
    before = {name: (out / name).read_bytes() for name in names_in(out)}

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nmfmerge.export.of_fit.write_all", full)
    code, _, err = command("export", out, "--tables", "parquet")
    assert code == 1
    assert "could not be written (No space left on device)" in err
    assert {name: (out / name).read_bytes() for name in names_in(out)} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run.npy"]


def test_the_data_may_have_moved_or_gone(command, song, tmp_path):
    out = tmp_path / "out"
    command("fit", song, "-r", 2, "-o", out)
    moved = tmp_path / "elsewhere.wav"
    shutil.move(song, moved)
    code, _, err = command("export", out, "--audio")
    assert code == 1
    assert "--audio needs the recording of" in err
    assert "name its file with --data" in err
    assert command("export", out)[0] == 0
    assert command("export", out, "--audio", "--data", moved)[0] == 0
    assert assert_stems(moved, out) == ["component-01", "component-02"]
    with open(moved, "ab") as opened:
        opened.write(b"more")
    code, _, err = command("export", out, "--audio", "--data", moved)
    assert code == 1
    assert "is not the file that was fitted" in err


def test_spectra_are_written_without_the_data(command, tmp_path):
    run = write_mzml(tmp_path / "run.mzML")
    command("fit", run, "-r", 2, "-k", 0, "-o", tmp_path / "out")
    run.unlink()
    for name in ("spectra.msp", "spectra.mgf", "peaks.csv"):
        (tmp_path / "out" / name).unlink()
    assert command("export", tmp_path / "out")[0] == 0
    assert {"spectra.msp", "spectra.mgf", "peaks.csv"} <= names_in(tmp_path / "out")


def test_a_folder_is_exported_from_within(command, file, tmp_path, monkeypatch):
    command("fit", file, "-r", 4, "-o", tmp_path / "out")
    monkeypatch.chdir(tmp_path / "out")
    assert command("export", ".", "--tables", "xlsx")[0] == 0
    assert os.path.exists("tables.xlsx")


def test_what_is_no_fit_is_refused(command, tmp_path):
    code, _, err = command("export", tmp_path)
    assert code == 1
    assert "holds no fit" in err


def test_the_demo_has_spectra(command, tmp_path):
    command("demo", "--starts", 1, "-o", tmp_path / "demo")
    n_compounds = datasets.lcms_like().n_components
    text = (tmp_path / "demo/spectra.mgf").read_text("utf-8")
    assert text.count("BEGIN IONS") == n_compounds
    assert command("export", tmp_path / "demo")[0] == 0


def test_data_that_have_changed_are_not_put_together_with_the_fit(tmp_path, command):
    import anndata

    rng = np.random.default_rng(0)
    cells = anndata.AnnData(rng.poisson(2.0, (12, 8)).astype(np.float32))
    cells.write_h5ad(tmp_path / "cells.h5ad")
    out = tmp_path / "out"
    words = ("fit", tmp_path / "cells.h5ad", "-r", 2, "--starts", 1, "--no-report", "-o", out)
    assert command(*words)[0] == 0
    before = (out / "result.h5ad").read_bytes()
    anndata.AnnData(cells.X[::-1].copy()).write_h5ad(tmp_path / "cells.h5ad")
    code, told, _ = command("export", out)
    assert code == 0
    assert "result.h5ad was not changed: its data are not there unchanged" in told
    assert (out / "result.h5ad").read_bytes() == before
