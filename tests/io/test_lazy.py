import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.io import FormatError, open_lazily, read
from nmfmerge.io.lazy import can_stream
from nmfmerge.io.sample import sample_digest
from nmfmerge.io.stored import Stored

anndata = pytest.importorskip("anndata")
da = pytest.importorskip("dask.array")
h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")

M, N = 600, 40
FEW = "500kB"  # so that there are several bands


def dense():
    return np.random.default_rng(0).random((M, N))


def sparse():
    return sp.random(M, N, 0.2, "csr", dtype=np.float32, random_state=0)


def save_npy(folder, X):
    np.save(folder / "a.npy", X)
    return folder / "a.npy"


def save_fortran(folder, X):
    return save_npy(folder, np.asfortranarray(X))


def save_zarr(folder, X):
    array = zarr.open(folder / "a.zarr", mode="w", shape=X.shape, chunks=(50, 7), dtype=X.dtype)
    array[...] = X
    return folder / "a.zarr"


def save_hdf5(folder, X):
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("x", data=X, chunks=(50, 7), compression="gzip")
    return folder / "a.h5"


def save_contiguous(folder, X):
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"] = X
    return folder / "a.h5"


def save_h5ad(folder, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata = anndata.AnnData(X)
        adata.obs_names = [f"cell {i}" for i in range(M)]
        adata.layers["counts"] = X
        adata.write_h5ad(folder / "a.h5ad")
    return folder / "a.h5ad"


SAVERS = [save_npy, save_fortran, save_zarr, save_hdf5, save_contiguous, save_h5ad]


@pytest.mark.parametrize("save", SAVERS)
def test_a_file_that_is_opened_lazily_holds_what_is_read(tmp_path, save):
    file = save(tmp_path, dense())
    lazy, whole = open_lazily(file, FEW), read(file)
    assert isinstance(lazy.X, da.Array)
    assert lazy.X.numblocks[0] > 3
    assert lazy.X.numblocks[1] == 1
    np.testing.assert_array_equal(lazy.X.compute(scheduler="threads"), whole.X)
    for side in ("rows", "columns"):
        ours, theirs = getattr(lazy, side), getattr(whole, side)
        assert ours.name == theirs.name
        np.testing.assert_array_equal(ours.values, theirs.values)
    assert (lazy.name, lazy.source) == (whole.name, whole.source)


@pytest.mark.parametrize("options", [{}, {"layer": "counts"}])
def test_sparse_cells_stay_sparse_and_keep_their_names(tmp_path, options):
    file = save_h5ad(tmp_path, sparse())
    data = open_lazily(file, "200kB", **options)
    assert data.X.numblocks[0] > 3
    blocks = [block.compute() for block in data.X.to_delayed().ravel()]
    assert all(sp.issparse(block) and block.format == "csr" for block in blocks)
    assert (sp.vstack(blocks) != sparse()).nnz == 0
    assert sp.issparse(data.X._meta)
    assert data.rows.name == "cell"
    assert data.rows.values[3] == "cell 3"
    assert data.columns.name == "gene"


@pytest.mark.parametrize("save", [save_zarr, save_hdf5])
def test_each_stored_chunk_is_read_once(tmp_path, save, monkeypatch):
    data = open_lazily(save(tmp_path, dense()), FEW)
    places = []
    for kind in Stored.__subclasses__():
        inner = kind.__getitem__

        def noted(self, place, inner=inner):
            places.append(place)
            return inner(self, place)

        monkeypatch.setattr(kind, "__getitem__", noted)
    data.X.compute(scheduler="sync")
    rows = sorted((place[0].start, place[0].stop) for place in places)
    assert [start for start, _ in rows] == [0, *(stop for _, stop in rows[:-1])]
    assert all(start % 50 == 0 for start, _ in rows)
    assert rows[-1][1] == M
    assert all(place[1] == slice(0, N) for place in places)


@pytest.mark.parametrize("save", SAVERS)
def test_what_is_opened_can_be_sent_to_another_process(tmp_path, save, monkeypatch):
    file = save(tmp_path, dense())
    monkeypatch.chdir(tmp_path)
    data = open_lazily(file.name, FEW)
    monkeypatch.chdir("/")
    X = pickle.loads(pickle.dumps(data.X))
    np.testing.assert_array_equal(X.compute(scheduler="sync"), dense())


def test_one_array_of_a_group_is_chosen(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for name, shape in (("x", (M, N)), ("y", (5, 6))):
        group.create_array(name, shape=shape, chunks=(5, 6), dtype="f8")[...] = 1
    with pytest.raises(FormatError, match="several arrays: choose one with variable="):
        open_lazily(tmp_path / "a.zarr")
    assert open_lazily(tmp_path / "a.zarr", variable="x").X.shape == (M, N)


def test_sides_are_named_and_swapped_as_when_read(tmp_path):
    file = save_npy(tmp_path, dense())
    (tmp_path / "names.txt").write_text("\n".join(f"n{i}" for i in range(N)))
    options = {"transpose": True, "rows": "band", "row_names": str(tmp_path / "names.txt")}
    lazy, whole = open_lazily(file, FEW, **options), read(file, **options)
    np.testing.assert_array_equal(lazy.X.compute(scheduler="sync"), whole.X)
    assert lazy.X.numblocks[1] > 3
    assert lazy.rows.name == "band"
    np.testing.assert_array_equal(lazy.rows.values, whole.rows.values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop_zero_rows": True}, "drop_zero_rows=True cannot be used with data that are strea"),
        ({"pixel_axes": "0,1"}, "pixel_axes='0,1' cannot be used with data that are streamed"),
        ({"layer": "x"}, "layer='x' is not an option of the format 'npy'"),
        ({"memory": "much"}, "memory='much' is not a size"),
    ],
)
def test_options_that_cannot_be_used_are_refused(tmp_path, options, message):
    file = save_npy(tmp_path, dense())
    with pytest.raises(ValueError, match=message):
        open_lazily(file, **options)


def test_sparse_rows_are_not_swapped(tmp_path):
    with pytest.raises(FormatError, match="leave out transpose=True"):
        open_lazily(save_h5ad(tmp_path, sparse()), transpose=True)


def test_sparse_columns_are_refused_with_the_fix(tmp_path):
    with pytest.raises(FormatError, match=r"X as 'csc_matrix'.*adata.X = adata.X.tocsr\(\)"):
        open_lazily(save_h5ad(tmp_path, sparse().tocsc()))
    adata = anndata.AnnData(dense())
    adata.layers["counts"] = sparse().tocsc()
    adata.write_h5ad(tmp_path / "layer.h5ad")
    with pytest.raises(FormatError, match=r"adata.layers\['counts'\] = adata.layers\['counts'\]\."):
        open_lazily(tmp_path / "layer.h5ad", layer="counts")


@pytest.mark.parametrize("name", ["a.csv", "a.npz", "a.mtx", "a.wav"])
def test_other_formats_are_refused_with_what_can_be_streamed(tmp_path, name):
    (tmp_path / name).write_text("1,2\n3,4\n")
    with pytest.raises(FormatError, match="cannot be streamed: that can be done with Zarr arrays"):
        open_lazily(tmp_path / name)
    assert not can_stream(tmp_path / name)


@pytest.mark.parametrize("shape", [(3,), (3, 4, 5), (0, 4)])
def test_what_is_no_matrix_is_refused(tmp_path, shape):
    np.save(tmp_path / "a.npy", np.ones(shape))
    message = "only matrices are streamed: store it as one" if len(shape) > 2 else "holds an"
    with pytest.raises(FormatError, match=message):
        open_lazily(tmp_path / "a.npy")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a\.zarr was not found"):
        open_lazily(tmp_path / "a.zarr")


def test_a_sample_tells_data_apart_and_does_not_depend_on_the_place(tmp_path):
    first, second, moved = tmp_path / "1", tmp_path / "2", tmp_path / "3"
    for folder, X in ((first, dense()), (second, dense() + 1), (moved, dense())):
        folder.mkdir()
        save_zarr(folder, X)
    digests = [sample_digest(folder / "a.zarr") for folder in (first, second, moved)]
    assert digests[0] == digests[2] != digests[1]


def test_a_sample_sees_all_parts_of_a_large_file(tmp_path):
    content = bytearray(300 * (1 << 16))
    (tmp_path / "a.npy").write_bytes(content)
    before = sample_digest(tmp_path / "a.npy")
    for place in (0, len(content) // 2, len(content) - 1):
        changed = bytearray(content)
        changed[place // (len(content) // 256) * (len(content) // 256)] = 1
        (tmp_path / "a.npy").write_bytes(changed)
        assert sample_digest(tmp_path / "a.npy") != before
