"""Small files that need much memory are refused before it is taken; a larger limit reads them."""

import gzip
import json
import re
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import soundfile
import tifffile
import zarr
from PIL import Image
from scipy.io import mmwrite, savemat, wavfile

from nmfmerge.io import FORMATS, FormatError, read
from nmfmerge.io.memory import parse_size
from nmfmerge.io.registry import find_format
from tests.io.test_lcms import write_andi, write_mzml, zipped

ZEROS = np.zeros((1500, 1500))  # 18 MB, and next to nothing when packed
WRITERS = {}


def writer(name, **options):
    def note(write):
        WRITERS[name] = (write, options)
        return write

    return note


@writer("x.npz")
def _(path):
    np.savez_compressed(path, X=ZEROS)


@writer("sparse.npz")
def _(path):
    sp.save_npz(path, sp.csr_matrix((3_000_000, 2)))


@writer("tall.npz")
def _(path):
    sp.save_npz(path, sp.coo_matrix((3_000_000, 2)))


@writer("x.csv.gz")
def _(path):
    path.write_bytes(gzip.compress((",".join("0" * 1500) + "\n").encode() * 1500))


@writer("short_lines.csv.gz")
def _(path):
    path.write_bytes(gzip.compress(b"0,0\n" * 100_000))


@writer("one_line.tsv.gz")
def _(path):
    path.write_bytes(gzip.compress("\t".join("0" * 400_000).encode()))


@writer("x.parquet")
def _(path):
    pd.DataFrame(np.zeros((1_000_000, 3)), columns=["a", "b", "c"]).to_parquet(path)


@writer("x.xlsx")
def _(path):
    pd.DataFrame([[0]]).to_excel(path, index=False, header=False)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    row = b"<row>" + b"<c><v>0</v></c>" * 200 + b"</row>"
    sheet = re.sub(
        rb"<sheetData>.*</sheetData>", b"<sheetData>" + row * 1000 + b"</sheetData>",
        parts["xl/worksheets/sheet1.xml"],
    )  # fmt: skip
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (parts | {"xl/worksheets/sheet1.xml": sheet}).items():
            archive.writestr(name, content)


@writer("tall.mtx")
def _(path):
    mmwrite(path, sp.coo_matrix(([1.0], ([0], [0])), shape=(3_000_000, 2)))


@writer("x.mtx.gz")
def _(path):
    head = b"%%MatrixMarket matrix array real general\n1500 1500\n"
    path.write_bytes(gzip.compress(head + b"0\n" * 1500**2))


@writer("x.mat")
def _(path):
    savemat(path, {"X": ZEROS}, do_compression=True)


@writer("v73.mat")
def _(path):
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("X", shape=(1500, 1500), dtype="f8", chunks=(100, 100))


@writer("x.h5")
def _(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", shape=(1500, 1500), dtype="f8", chunks=(100, 100))


@writer("chunk.h5")
def _(path):
    with h5py.File(path, "w") as file:
        options = {"chunks": ZEROS.shape, "maxshape": (None, None), "compression": "gzip"}
        file.create_dataset("X", data=np.ones((2, 2)), **options)


@writer("x.zarr")
def _(path):
    zarr.create_array(path, shape=(1500, 1500), dtype="f8", chunks=(100, 100))


@writer("chunk.zarr")
def _(path):
    zarr.create_array(path, shape=(2, 2), dtype="f8", chunks=(1500, 1500))[...] = 1


@writer("x.h5ad")
def _(path):
    anndata.AnnData(ZEROS, pd.DataFrame(index=list(map(str, range(1500))))).write_h5ad(
        path, compression="gzip"
    )


@writer("x.wav", hop=1, window=128)
def _(path):
    wavfile.write(path, 8000, np.zeros(20_000, np.int16))


@writer("x.flac")
def _(path):
    soundfile.write(path, np.zeros(2_000_000), 8000)


@writer("x.mzML")
def _(path):
    write_mzml(path, [(60.0, 1, [100.0, 1e6], [1.0, 2.0])])


@writer("zipped.mzML")
def _(path):
    write_mzml(path, [(60.0, 1, np.full(1_500_000, 100.0), np.ones(1_500_000))], pack=zipped)


@writer("x.mzML.gz")
def _(path):
    write_mzml(path)
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text.replace(b"<scanList", b" " * 10**6 + b"<scanList")))


@writer("x.cdf")
def _(path):
    write_andi(path, [(60.0, 1, [100.0, 1e6], [1.0, 2.0])])


@writer("time.cdf", time_bin=1e-6)
def _(path):
    write_andi(path)


@writer("x.tif")
def _(path):
    stack = np.zeros((4, 2000, 2000), np.uint8)
    tifffile.imwrite(path, stack, compression="zlib", photometric="minisblack")


@writer("one_page.tif")
def _(path):
    """One byte a pixel, and eight for its number."""
    tifffile.imwrite(path, np.zeros((1200, 1200), np.uint8), compression="zlib")


@writer("x.hdr")
def _(path):
    """The data file is not packed, but a file may lie in a file system that packs."""
    from spectral import envi

    envi.save_image(str(path), np.zeros((100, 100, 60), np.uint8))


@writer("cells")
def _(path):
    path.mkdir()
    mmwrite(path / "matrix.mtx", sp.coo_matrix(([1.0], ([0], [0])), (100_000, 3)))
    (path / "barcodes.tsv").write_text("a\nb\nc\n")
    text = gzip.compress(b"gene\n" * 100_000)
    (path / "features.tsv.gz").write_bytes(text)


@writer("images")
def _(path):
    path.mkdir()
    Image.new("L", (3000, 3000)).save(path / "a.png")


@writer("pages")
def _(path):
    path.mkdir()
    page = Image.new("L", (700, 700))
    pages = [Image.new("L", (700, 700), k) for k in range(1, 20)]
    page.save(path / "a.gif", save_all=True, append_images=pages)


@pytest.fixture(params=WRITERS)
def small_file(request, tmp_path):
    write, options = WRITERS[request.param]
    write(tmp_path / request.param)
    return tmp_path / request.param, options


def test_small_files_of_every_format_are_tried(tmp_path):
    for folder in ("images", "pages", "cells"):
        (tmp_path / folder).mkdir()
    (tmp_path / "cells" / "matrix.mtx").touch()
    tried = {find_format(tmp_path / name).name for name in WRITERS}
    assert tried == set(FORMATS) - {"npy"}  # whose size on disk is that in memory


def test_a_small_file_is_refused_before_it_takes_memory(small_file):
    path, options = small_file
    assert sum(f.stat().st_size for f in [path, *path.rglob("*")] if f.is_file()) < 200_000
    tracemalloc.start()
    with pytest.raises(FormatError, match="max_memory=") as caught:
        read(path, max_memory="5MB", **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(path) in str(caught.value)
    assert peak < 12e6
    assert re.search(r"check that the file is not damaged, or .*max_memory='\d+[MG]B'$",
                     str(caught.value))  # fmt: skip


def test_a_small_file_is_read_all_the_same(small_file):
    path, options = small_file
    assert read(path, max_memory="2 GB", **options).X.shape


def test_the_limit_that_a_message_names_is_enough(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", X=ZEROS)
    with pytest.raises(FormatError) as caught:
        read(tmp_path / "x.npz", max_memory="5MB")
    enough = re.search(r"max_memory='(.*)'", str(caught.value))[1]
    assert read(tmp_path / "x.npz", max_memory=enough).X.shape == (1500, 1500)


# What is said and not there


def npy_header(shape):
    text = str({"descr": "<f8", "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def _npy(path):
    path.write_bytes(npy_header((30_000, 30_000)) + bytes(80))


def _npz(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", npy_header((40_000, 40_000)) + bytes(80))


def _mtx(path):
    path.write_text("%%MatrixMarket matrix coordinate real general\n3 3 500000000\n1 1 1.0\n")


def _dense_mtx(path):
    path.write_text("%%MatrixMarket matrix array real general\n50000 40000\n1.0\n")


def _hdf5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", shape=(20_000, 20_000), dtype="f8", chunks=(1000, 1000))


def _zarr(path):
    zarr.create_array(path, shape=(20_000, 20_000), dtype="f8", chunks=(1000, 1000))


def _zarr_chunk(path):
    """A chunk that says it unpacks to gigabytes."""
    numbers = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    about = {"zarr_format": 2, "shape": [2, 2], "chunks": [2, 2], "dtype": "<f8", "order": "C",
             "compressor": numbers, "filters": None, "fill_value": 0}  # fmt: skip
    path.mkdir()
    (path / ".zarray").write_text(json.dumps(about))
    (path / "0.0").write_bytes(
        bytes([2, 1, 1, 8]) + b"".join(n.to_bytes(4, "little") for n in (2**31 - 100, 2**20, 50))
    )


def _mzml(path):
    write_mzml(path, [(60.0, 1, [100.0, 3e8], [1.0, 2.0])])


def _cdf(path):
    write_andi(path, [(60.0, 1, [100.0, 1e9], [1.0, 2.0])])


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("x.npy", _npy),
        ("x.npz", _npz),
        ("x.mtx", _mtx),
        ("dense.mtx", _dense_mtx),
        ("x.h5", _hdf5),
        ("x.zarr", _zarr),
        ("chunk.zarr", _zarr_chunk),
        ("x.mzML", _mzml),
        ("x.cdf", _cdf),
    ],
)
def test_gigabytes_of_a_small_file_are_refused_by_default(tmp_path, refused, name, write):
    write(tmp_path / name)
    refused(tmp_path / name, "of memory and the limit is 1 GB", "max_memory=")


HUGE_LENGTHS = {
    "x.npy": (lambda path: np.save(path, np.ones((2, 2))), b"NUMPY\x01\x00", 4, b"\x02\x00"),
    "x.cdf": (write_andi, b"\x00\x00\x00\x0bmass_values", 0, b""),
}


@pytest.mark.parametrize("name", HUGE_LENGTHS)
def test_a_length_of_gigabytes_is_not_asked_for(tmp_path, refused, name):
    """A name or header that is said to be that long, at which a file would make room for it."""
    write, mark, skip, version = HUGE_LENGTHS[name]
    write(tmp_path / name)
    raw = (tmp_path / name).read_bytes()
    at = raw.index(mark)
    if version:
        raw = raw[: at + 5] + version + b"\xff\xff\xff\x7f" + raw[at + 5 + skip :]
    else:
        raw = raw[:at] + b"\x7f\xff\xff\xff" + raw[at + 4 :]
    (tmp_path / name).write_bytes(raw)
    resource = pytest.importorskip("resource")
    limit = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, limit[1]))
    try:
        message = refused(tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    assert "more memory than there is" not in message


@pytest.mark.parametrize("mass", [1e17, 1e300])
def test_a_mass_beyond_all_bins_is_refused(tmp_path, refused, mass):
    write_mzml(tmp_path / "x.mzML", [(60.0, 1, [100.0, mass], [1.0, 2.0])])
    refused(tmp_path / "x.mzML", "too large for bins of 1 Da: set mz_max")
    assert read(tmp_path / "x.mzML", mz_max=200).X.sum() == 1


# The option


@pytest.mark.parametrize(
    ("text", "size"),
    [("8GB", 8e9), ("8 gb", 8e9), ("1.5GiB", 1.5 * 2**30), ("500M", 5e8), ("64k", 64e3),
     ("2TB", 2e12), ("1000", 1000), (1e9, 1e9), (2**30, 2**30), ("10B", 10)],
)  # fmt: skip
def test_sizes_are_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1XB", "1 2GB", "0", "0GB", "nan", "8iB", -5])
def test_what_is_no_size_is_refused(tmp_path, text):
    np.save(tmp_path / "x.npy", ZEROS)
    with pytest.raises(ValueError, match=r"max_memory=.* write (one|a size) such as '8GB'"):
        read(tmp_path / "x.npy", max_memory=text)


def test_by_default_a_file_may_take_half_of_the_machine(tmp_path, monkeypatch, refused):
    np.save(tmp_path / "x.npy", ZEROS)
    monkeypatch.setattr("nmfmerge.io.memory.machine_memory", lambda: 30_000_000)
    refused(tmp_path / "x.npy", "needs 18 MB of memory and the limit is 15 MB")
    monkeypatch.setattr("nmfmerge.io.memory.machine_memory", lambda: 60_000_000)
    assert read(tmp_path / "x.npy").X.shape == (1500, 1500)


# A file cannot crash the interpreter, nor lead to other files

SCRIPT = """
import sys
from nmfmerge.io import read
print(read(sys.argv[1]).X.sum())
"""


def test_matlab_files_are_read_from_a_script_without_a_main_guard(tmp_path, X):
    savemat(tmp_path / "x.mat", {"X": X})
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "numpy.py").write_text("raise SystemExit('the wrong numpy')")
    done = subprocess.run(
        [sys.executable, "-P", tmp_path / "script.py", tmp_path / "x.mat"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == X.sum()


@pytest.mark.parametrize("kind", [0, 8, 192, 255])
def test_a_damaged_matlab_file_does_not_end_the_process(tmp_path, X, refused, kind):
    """Numbers of a kind that does not exist end SciPy's reader with a signal."""
    savemat(tmp_path / "x.mat", {"X": X})
    raw = bytearray((tmp_path / "x.mat").read_bytes())
    assert raw[176:184] == (9).to_bytes(4, "little") + X.nbytes.to_bytes(4, "little")
    raw[176] = kind
    (tmp_path / "x.mat").write_bytes(bytes(raw))
    refused(tmp_path / "x.mat")


def test_a_process_that_ends_early_means_a_damaged_file(tmp_path, X, refused, monkeypatch):
    savemat(tmp_path / "x.mat", {"X": X})
    (tmp_path / "crash.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr("nmfmerge.io.matlab._PROGRAM", tmp_path / "crash.py")
    refused(tmp_path / "x.mat", "is damaged: the process that read it ended with code -11")


@pytest.fixture
def elsewhere(tmp_path, X):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["X"] = X
    (tmp_path / "raw").write_bytes(X.tobytes())
    return tmp_path


@pytest.mark.parametrize("name", ["x.h5", "x.mat"])
@pytest.mark.parametrize("variable", [None, "X"])
def test_links_to_other_files_are_not_followed(elsewhere, refused, name, variable):
    with h5py.File(elsewhere / name, "w", userblock_size=512) as file:
        file["X"] = h5py.ExternalLink(str(elsewhere / "other.h5"), "X")
    refused(elsewhere / name, "link to another file", "other.h5", variable=variable)


@pytest.mark.parametrize("name", ["x.h5", "x.mat"])
@pytest.mark.parametrize("kind", ["external", "virtual"])
def test_values_in_other_files_are_not_fetched(elsewhere, refused, X, name, kind):
    with h5py.File(elsewhere / name, "w", userblock_size=512) as file:
        if kind == "external":
            where = [(str(elsewhere / "raw"), 0, X.nbytes)]
            file.create_dataset("X", shape=X.shape, dtype="f8", external=where)
        else:
            layout = h5py.VirtualLayout(shape=X.shape, dtype="f8")
            layout[:] = h5py.VirtualSource(str(elsewhere / "other.h5"), "X", shape=X.shape)
            file.create_virtual_dataset("X", layout)
    refused(elsewhere / name, "in another file, which is not followed")


@pytest.mark.parametrize("place", ["X", "layers/raw", "obs/_index", "var"])
def test_links_in_anndata_are_not_followed(elsewhere, refused, X, place):
    path = elsewhere / "x.h5ad"
    anndata.AnnData(X, layers={"raw": X}).write_h5ad(path)
    with h5py.File(path, "a") as file:
        del file[place]
        file[place] = h5py.ExternalLink(str(elsewhere / "other.h5"), "X")
    refused(path, "link to another file", layer="raw" if "raw" in place else None)


def test_a_group_within_itself_is_refused(tmp_path, refused, X):
    anndata.AnnData(X).write_h5ad(tmp_path / "x.h5ad")
    with h5py.File(tmp_path / "x.h5ad", "a") as file:
        file["obs/again"] = file["obs"]
    refused(tmp_path / "x.h5ad", "groups that contain themselves")
