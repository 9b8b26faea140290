import numpy as np
import pytest
import zarr

from nmfmerge.io import read


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["x.zarr", "folder"])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("compressors", ["auto", None])
def test_zarr_array_comes_back(tmp_path, X, version, name, transpose, compressors):
    array = zarr.create_array(
        tmp_path / name, shape=X.shape, chunks=(2, 3), dtype=X.dtype, zarr_format=version,
        compressors=compressors,
    )  # fmt: skip
    array[:] = X
    data = read(tmp_path / name, transpose=transpose)
    np.testing.assert_array_equal(data.X, X.T if transpose else X)
    assert data.name == name.removesuffix(".zarr")


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_group_needs_a_choice(tmp_path, X, refused, version):
    path = tmp_path / "x.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=version)
    group.create_array("a", data=X)
    group.create_group("inner").create_array("b", data=2 * X)
    refused(path, "several arrays", "'a' (5 × 4), 'inner/b' (5 × 4)")
    np.testing.assert_array_equal(read(path, variable="/inner/b").X, 2 * X)
    refused(path, "no array 'c'", variable="c")


def test_zarr_with_wrong_content_is_refused(tmp_path, X, refused):
    (tmp_path / "empty.zarr").mkdir()
    refused(tmp_path / "empty.zarr", "cannot be read as zarr")
    zarr.open_group(tmp_path / "group.zarr", mode="w")
    refused(tmp_path / "group.zarr", "holds no numeric array")
    array = zarr.create_array(tmp_path / "x.zarr", data=np.ones((2, 3, 4)))
    refused(tmp_path / "x.zarr", "3 dimensions")
    refused(tmp_path / "x.zarr", "holds one array", variable="a")
    for chunk in (tmp_path / "x.zarr" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"not a chunk")
    assert array.shape == (2, 3, 4)
    refused(tmp_path / "x.zarr", "cannot be read as zarr")
    (tmp_path / "x.zarr" / "zarr.json").write_text("{")
    refused(tmp_path / "x.zarr", "cannot be read as zarr")


def test_without_zarr_the_command_is_given(tmp_path, needs):
    (tmp_path / "x.zarr").mkdir()
    assert needs(tmp_path / "x.zarr", "zarr", "zarr", "hdf5").startswith("reading .zarr ")
