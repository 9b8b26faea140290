import gzip
import warnings

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite

from nmfmerge.io import ReadingWarning, describe, read

CELLS = [f"AAAC{i}-1" for i in range(7)]
IDS = [f"ENSG{i:03}" for i in range(9)]
SYMBOLS = ["CD3E", "MT-CO1", "CD3E", "LYZ", "TBCE", "TBCE", "TBCE-1", "CD3", "CD19"]
TYPES = ["Gene Expression"] * 7 + ["Antibody Capture"] * 2


@pytest.fixture
def counts(rng):
    """Genes × cells, as they are stored."""
    return sp.csc_matrix(rng.poisson(0.7, (9, 7)).astype(np.int32))


def write_folder(path, counts, old=False, types=TYPES):
    path.mkdir()
    mmwrite(path / "matrix.mtx", counts)
    (path / "barcodes.tsv").write_text("".join(f"{cell}\n" for cell in CELLS))
    if old:
        text = "".join(f"{i}\t{s}\n" for i, s in zip(IDS, SYMBOLS, strict=True))
        (path / "genes.tsv").write_text(text)
        return path
    text = "".join(f"{i}\t{s}\t{t}\n" for i, s, t in zip(IDS, SYMBOLS, types, strict=True))
    (path / "features.tsv").write_text(text)
    for file in list(path.iterdir()):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    return path


def write_h5(path, counts, genomes=()):
    with h5py.File(path, "w") as file:
        for name in genomes or ("matrix",):
            group = file.create_group(name)
            group["barcodes"] = np.array(CELLS, "S")
            for part in ("data", "indices", "indptr"):
                group[part] = getattr(counts, part)
            group["shape"] = np.array(counts.shape, "i4")
            if genomes:
                group["genes"], group["gene_names"] = np.array(IDS, "S"), np.array(SYMBOLS, "S")
            else:
                group["features/id"] = np.array(IDS, "S")
                group["features/name"] = np.array(SYMBOLS, "S")
                group["features/feature_type"] = np.array(TYPES, "S")
                group["features/genome"] = np.array(["GRCh38"] * 9, "S")
    return path


@pytest.fixture
def quiet_scanpy():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import scanpy

        yield scanpy


def same(data, adata):
    assert (data.rows.name, data.columns.name) == ("cell", "gene")
    np.testing.assert_array_equal(data.X.toarray(), adata.X.toarray())
    assert data.rows.values.tolist() == adata.obs_names.tolist()
    assert data.columns.values.tolist() == adata.var_names.tolist()


@pytest.mark.parametrize("old", [False, True])
def test_a_folder_is_read_as_scanpy_reads_it(tmp_path, counts, old, quiet_scanpy):
    path = write_folder(tmp_path / "out", counts, old)
    same(read(path), quiet_scanpy.read_10x_mtx(path))
    data = read(path, transpose=True)
    assert (data.rows.name, data.columns.name) == ("gene", "cell")


@pytest.mark.parametrize("genomes", [(), ("hg19",)])
def test_a_file_is_read_as_scanpy_reads_it(tmp_path, counts, genomes, quiet_scanpy):
    path = write_h5(tmp_path / "x.h5", counts, genomes)
    expected = quiet_scanpy.read_10x_h5(path)
    expected.var_names_make_unique()
    same(read(path), expected)


def test_one_of_several_genomes_is_chosen(tmp_path, counts, refused):
    path = write_h5(tmp_path / "x.h5", counts, ("hg19", "mm10"))
    refused(path, "several arrays", "'hg19', 'mm10'", "variable=")
    assert read(path, variable="mm10").X.shape == (7, 9)


def test_other_features_are_left_out_and_that_is_told(tmp_path, counts, refused):
    for path in (write_folder(tmp_path / "out", counts), write_h5(tmp_path / "x.h5", counts)):
        with pytest.warns(ReadingWarning, match="feature_type='Antibody Capture'"):
            data = read(path)
        note = "2 features that are Antibody Capture were left out"
        assert describe(data)["description"] == note
        assert data.X.shape == (7, 7)
        proteins = read(path, feature_type="Antibody Capture")
        assert proteins.columns.values.tolist() == ["CD3", "CD19"]
        np.testing.assert_array_equal(proteins.X.toarray(), counts.toarray()[7:].T)
        np.testing.assert_array_equal(
            read(path, feature_type="all").X.toarray(), counts.T.toarray()
        )
        refused(path, "no features of feature_type='Peaks'", "Antibody Capture, Gene Expression",
                feature_type="Peaks")  # fmt: skip


def test_a_folder_without_genes_is_read_whole(tmp_path, counts):
    path = write_folder(tmp_path / "out", counts, types=["Peaks"] * 9)
    assert read(path).X.shape == (7, 9)


def test_incomplete_folders_are_refused(tmp_path, counts, refused):
    path = write_folder(tmp_path / "out", counts)
    (path / "barcodes.tsv.gz").rename(tmp_path / "kept")
    refused(path, "has no barcodes.tsv beside its matrix")
    (path / "barcodes.tsv").write_text("AAAC\n")
    refused(path, "has 7 cells and 9 features with 1 barcodes and 9 names")
    (path / "features.tsv.gz").write_bytes(b"no gzip")
    refused(path, "is not a complete .gz file")


def test_a_plain_hdf5_file_has_no_types_of_features(tmp_path, X, refused):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = X
    refused(tmp_path / "x.h5", "leave out feature_type='all'", feature_type="all")
