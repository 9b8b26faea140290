import numpy as np
import pytest
import zarr

from nmfmerge.io import open_lazily, read


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


@pytest.fixture(params=[2, 3])
def labelled(request, tmp_path, X):
    """A store of xarray with numbers along the rows and text along the columns."""
    xarray = pytest.importorskip("xarray")
    coordinates = {
        "wavelength": ("wavelength", 400 + 2.5 * np.arange(5), {"units": "nm"}),
        "sample": ["a", "bb", "ccc", "d"],
        "batch": ("sample", [1, 1, 2, 2]),
    }
    data = xarray.Dataset({"counts": (("wavelength", "sample"), X)}, coords=coordinates)
    data.to_zarr(tmp_path / "x.zarr", zarr_format=request.param, consolidated=False)
    return tmp_path / "x.zarr"


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("reader", [read, open_lazily])
def test_coordinates_of_xarray_are_the_axes(labelled, X, reader):
    data = reader(labelled)
    np.testing.assert_array_equal(np.asarray(data.X), X)
    assert (data.rows.label, data.columns.label) == ("wavelength (nm)", "sample")
    np.testing.assert_array_equal(data.rows.values, 400 + 2.5 * np.arange(5))
    assert data.columns.values.tolist() == ["a", "bb", "ccc", "d"]
    assert data.columns.values.dtype.kind == "U"


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_coordinates_are_not_taken_for_the_matrix(labelled, X, refused):
    np.testing.assert_array_equal(read(labelled).X, X)
    refused(labelled, "1 dimension", variable="wavelength")


def test_dimensions_without_coordinates_have_their_names(tmp_path, X):
    group = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=3)
    group.create_array("inner/a", data=X, dimension_names=("gene", "cell"))
    group.create_array("inner/gene", data=np.arange(3), dimension_names=("gene",))  # too short
    group.create_array("cell", data=np.arange(4), dimension_names=("cell",))  # of another group
    data = read(tmp_path / "x.zarr", variable="inner/a")
    assert (data.rows.name, data.columns.name) == ("gene", "cell")
    assert data.rows.values.tolist() == list(range(5))
    zarr.create_array(tmp_path / "y.zarr", data=X, dimension_names=("gene", None))
    assert read(tmp_path / "y.zarr").rows.name == "row"
