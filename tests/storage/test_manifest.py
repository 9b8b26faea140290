"""Which files of a folder may be replaced: those that its fit.json lists, and no others."""

import json

import pytest

from nmfmerge import datasets, nmf
from nmfmerge.storage import folder
from nmfmerge.storage.folder import Fit, FolderError
from nmfmerge.storage.manifest import add_files, not_ours

DATA = datasets.paper_example()
FIT = Fit(nmf(DATA.X, 2, max_time=60), DATA)
PAGES = {"report.html": "page", "figures/components.png": b"picture"}


@pytest.fixture
def path(tmp_path):
    folder.write(tmp_path / "fit", FIT, PAGES, exports=lambda scratch: (scratch / "x.msp").touch())
    return tmp_path / "fit"


def change(path, files):
    record = json.loads((path / "fit.json").read_text())
    (path / "fit.json").write_text(json.dumps(record | {"files": files}))


def test_every_file_that_was_written_is_listed(path):
    files = {f.relative_to(path).as_posix() for f in path.rglob("*") if f.is_file()}
    assert {"fit.json", "factors.npz", "W.csv", "x.msp", *PAGES} <= files
    assert set(json.loads((path / "fit.json").read_text())["files"]) == files
    assert not_ours(path) == []


def test_a_file_of_the_user_is_kept_even_if_its_name_is_one_that_exports_have(path):
    for name in ("peaks.csv", "figures/mine.png", "notes/a.txt"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("mine")
    assert sorted(not_ours(path)) == ["figures/mine.png", "notes", "peaks.csv"]
    with pytest.raises(FolderError, match=r"not of the fit.*figures/mine.png"):
        folder.check_output(path, replace=True)
    folder.write(path, FIT, replace=True)
    for name in ("peaks.csv", "figures/mine.png", "notes/a.txt"):
        assert (path / name).read_text() == "mine"
    assert not (path / "x.msp").exists()


def test_files_that_are_added_later_are_replaced_with_the_fit(path):
    add_files(path, ["spectra.msp"])
    (path / "spectra.msp").touch()
    assert not_ours(path) == []
    folder.write(path, FIT, replace=True)
    assert not (path / "spectra.msp").exists()


def test_a_file_that_was_not_finished_belongs_to_the_fit(path):
    (path / ".report.html.nmfmerge-new").touch()
    (path / ".other.html.nmfmerge-new").touch()
    assert not_ours(path) == [".other.html.nmfmerge-new"]


@pytest.mark.parametrize(
    "name", ["../other.txt", "/other.txt", "a/../../other.txt", "..", ".", "", "a/b/c", 3, None]
)
def test_names_that_lead_out_of_the_folder_are_ignored(path, name):
    other = path.parent / "other.txt"
    other.write_text("mine")
    change(path, [name, *json.loads((path / "fit.json").read_text())["files"]])
    folder.write(path, FIT, replace=True)
    assert other.read_text() == "mine"
    assert folder.read(path).result.n_components == 2


@pytest.mark.parametrize("files", [None, "W.csv", {"W.csv": 1}, 5])
def test_without_a_list_nothing_but_the_record_is_replaced(path, files):
    change(path, files)
    assert "W.csv" in not_ours(path)
    assert "fit.json" not in not_ours(path)


def test_a_damaged_record_lists_nothing(path):
    (path / "fit.json").write_text("{")
    assert "W.csv" in not_ours(path)


def test_a_link_is_never_ours(path):
    (path / "W.csv").unlink()
    (path / "W.csv").symlink_to(path / "H.csv")
    assert not_ours(path) == ["W.csv"]
