"""What an explorer opens, and what it refuses."""

import numpy as np
import pytest

from nmfmerge.explore.explorer import open_matrix, open_path
from nmfmerge.explore.place import Place
from nmfmerge.storage import folder
from tests.explore.conftest import done


def test_a_wrong_file_is_not_kept_locked(file):
    np.save(file, -np.ones((4, 3)))
    for _ in range(2):
        with pytest.raises(ValueError, match="Negative values"):
            open_path(file)
    assert sorted(path.name for path in file.parent.iterdir()) == ["run.npy"]


def test_a_matrix_in_memory_has_numbered_axes(rng):
    session = open_matrix(rng.random((8, 6)).tolist())
    assert session.data.rows.name == "row"
    assert session.data.X.shape == (8, 6)
    session.close()


def test_something_that_is_no_matrix_is_refused(rng):
    with pytest.raises(ValueError, match="X has 1 dimensions"):
        open_matrix(rng.random(5))


def test_a_fit_without_its_data_is_refused(opened, file):
    opened.save("mine.nmf")
    done(opened)
    opened.close()
    file.unlink()
    with pytest.raises(folder.FolderError, match="not there unchanged"):
        open_path(file.parent / "mine.nmf")


def test_saving_goes_to_the_folder_of_the_data(opened, file):
    assert opened.place.folder == Place(file.parent).folder
