import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmfmerge.explore.place import Place, PlaceError


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../run.nmf", "a/b", "/etc/passwd", "a\\b", ".hidden", "C:run", "a\0b", " run",
     "run ", "a\nb", "~/x/y", "\\\\server\\share"],
)  # fmt: skip
def test_names_that_are_paths_are_refused(tmp_path, name):
    with pytest.raises(PlaceError, match="plain name"):
        Place(tmp_path).file(name)


@given(st.text(max_size=30))
def test_whatever_the_name_nothing_outside_is_named(tmp_path_factory, name):
    folder = tmp_path_factory.getbasetemp()
    try:
        path = Place(folder).file(name)
    except (PlaceError, ValueError):
        return
    assert path.resolve().parent == folder.resolve()
    assert path.name == name


def test_links_that_lead_out_are_refused_and_not_listed(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret.csv").write_text("1,2\n")
    (inside / "link.csv").symlink_to(outside / "secret.csv")
    (inside / "mine.csv").write_text("1,2\n")
    (inside / "near.csv").symlink_to("mine.csv")
    place = Place(inside)
    with pytest.raises(PlaceError, match="leads out"):
        place.file("link.csv")
    assert place.openable() == ["mine.csv", "near.csv"]


def test_only_data_files_and_fits_are_listed(tmp_path):
    for name in ("run.mzML", "table.CSV", "notes.md", ".hidden.npy"):
        (tmp_path / name).write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "fit.nmf").mkdir()
    (tmp_path / "fit.nmf" / "fit.json").write_text("{}")
    assert Place(tmp_path).openable() == ["fit.nmf", "run.mzML", "table.CSV"]


def test_a_folder_that_is_a_link_is_the_folder_it_leads_to(tmp_path):
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "alias")
    assert Place(tmp_path / "alias").file("run.nmf") == tmp_path.resolve() / "real" / "run.nmf"
