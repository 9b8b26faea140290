"""A small valid file of every format, written by the libraries of the field."""

import gzip
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

_RNG = np.random.default_rng(0)
_X = _RNG.random((6, 5)).round(4)
_S: Any = sp.csr_matrix(np.where(_RNG.random((12, 9)) < 0.3, _RNG.random((12, 9)), 0.0))
_IMAGES = _RNG.integers(0, 256, (4, 6, 5), dtype=np.uint8)
_SOUND = (8000 * np.sin(0.1 * np.arange(1500))).astype(np.int16)

OPTIONS: dict[str, dict[str, Any]] = {
    "two.npz": {"variable": "X"},
    "two.mat": {"variable": "S"},
    "m73.mat": {"variable": "S"},
    "layer.h5ad": {"layer": "raw"},
    "mono.wav": {"window": 256},
    "stereo.wav": {"window": 256, "channel": 2},
    "a.flac": {"window": 256},
    "a.ogg": {"window": 256},
    "colour.tif": {"channel": "red"},
    "colour_png": {"channel": "blue"},
}


def write_seeds(folder: Path) -> list[str]:
    """Write all of them; their names, folders among them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for write in (_arrays, _tables, _matlab, _hierarchies, _cells, _sounds, _images, _runs):
            write(folder)
    return seed_names(folder)


def seed_names(folder: Path) -> list[str]:
    """Names of the seeds in a folder; the data file of an ENVI header is part of that."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".img")


def _arrays(folder: Path) -> None:
    from scipy.io import mmwrite

    np.save(folder / "a.npy", _X)
    np.savez(folder / "one.npz", X=_X)
    np.savez_compressed(folder / "two.npz", X=_X, Y=2 * _X)
    for layout in ("csr", "csc", "coo", "bsr", "dia"):
        sp.save_npz(folder / f"{layout}.npz", _S.asformat(layout))
    mmwrite(folder / "sparse.mtx", _S)
    mmwrite(folder / "dense.mtx", _X)
    (folder / "a.mtx.gz").write_bytes(gzip.compress((folder / "sparse.mtx").read_bytes()))


def _tables(folder: Path) -> None:
    import pandas as pd

    table = pd.DataFrame(_X, [f"r{i}" for i in range(6)], list("abcde"))
    table.to_csv(folder / "a.csv")
    table.to_csv(folder / "a.csv.gz")
    table.to_csv(folder / "a.tsv", sep="\t")
    np.savetxt(folder / "a.txt", _X)
    table.to_parquet(folder / "named.parquet")
    table.reset_index(drop=True).to_parquet(folder / "zstd.parquet", compression="zstd")
    table.to_excel(folder / "a.xlsx")


def _matlab(folder: Path) -> None:
    import h5py
    from scipy.io import savemat

    savemat(folder / "one.mat", {"X": _X})
    savemat(folder / "four.mat", {"X": _X}, format="4")
    savemat(folder / "two.mat", {"X": _X, "S": _S}, do_compression=True)
    with h5py.File(folder / "m73.mat", "w", userblock_size=512) as file:
        file["X"] = _X.T
        group, C = file.create_group("S"), _S.tocsc()
        group.attrs["MATLAB_sparse"] = np.uint64(12)
        group["data"], group["ir"], group["jc"] = C.data, C.indices.astype("u8"), C.indptr


def _hierarchies(folder: Path) -> None:
    import anndata
    import h5py
    import pandas as pd
    import zarr

    with h5py.File(folder / "chunked.h5", "w") as file:
        file.create_dataset("g/X", data=_X, compression="gzip", chunks=(3, 3))
    with h5py.File(folder / "plain.h5", "w", libver="latest") as file:
        file["X"] = _X
    for version in (2, 3):
        group = zarr.open_group(folder / f"v{version}.zarr", mode="w", zarr_format=version)
        group.create_array("X", shape=_X.shape, dtype="f8", chunks=(3, 3))[...] = _X
    cells = anndata.AnnData(
        _S.astype("f4"),
        obs=pd.DataFrame(index=[f"cell{i}" for i in range(12)]),
        var=pd.DataFrame(index=[f"gene{i}" for i in range(9)]),
        layers={"raw": _S.toarray()},
    )
    cells.write_h5ad(folder / "a.h5ad")
    cells.write_h5ad(folder / "layer.h5ad")


def _cells(folder: Path) -> None:
    import h5py
    from scipy.io import mmwrite

    barcodes, genes = [f"AAAC{i}-1" for i in range(9)], [f"ENSG{i}" for i in range(12)]
    for name, pack in (("old", ""), ("new", ".gz")):
        (folder / name).mkdir()
        types = "\tGene Expression" if pack else ""
        texts = {
            "barcodes.tsv": "".join(f"{cell}\n" for cell in barcodes),
            f"{'features' if pack else 'genes'}.tsv": "".join(
                f"{gene}\tG{i // 2}{types}\n" for i, gene in enumerate(genes)
            ),
        }
        mmwrite(folder / name / "matrix.mtx", _S)
        for file, text in texts.items():
            (folder / name / file).write_text(text)
        for plain in list((folder / name).iterdir()) if pack else []:
            plain.with_name(f"{plain.name}.gz").write_bytes(gzip.compress(plain.read_bytes()))
            plain.unlink()
    C = _S.tocsc()
    parts = {"data": C.data, "indices": C.indices, "indptr": C.indptr, "shape": C.shape}
    with h5py.File(folder / "tenx.h5", "w") as file:
        group = file.create_group("matrix")
        for name, values in {**parts, "barcodes": np.array(barcodes, "S")}.items():
            group[name] = values
        group["features/name"] = np.array(genes, "S")
        group["features/feature_type"] = np.array(["Gene Expression"] * 12, "S")
    with h5py.File(folder / "tenx_old.h5", "w") as file:
        for name, values in {**parts, "barcodes": np.array(barcodes, "S")}.items():
            file[f"hg19/{name}"] = values
        file["hg19/gene_names"] = np.array(genes, "S")


def _sounds(folder: Path) -> None:
    import soundfile
    from scipy.io import wavfile

    wavfile.write(folder / "mono.wav", 8000, _SOUND)
    wavfile.write(folder / "stereo.wav", 8000, np.column_stack([_SOUND, _SOUND // 2]) / 2.0**15)
    for suffix in ("flac", "ogg"):
        soundfile.write(folder / f"a.{suffix}", _SOUND, 8000)


def _images(folder: Path) -> None:
    import tifffile
    from PIL import Image

    grey: dict[str, Any] = {"photometric": "minisblack"}
    tifffile.imwrite(folder / "a.tif", _IMAGES, **grey)
    tifffile.imwrite(folder / "zip.tif", _IMAGES, compression="zlib", **grey)
    tifffile.imwrite(folder / "a.ome.tif", _IMAGES, metadata={"axes": "TYX"}, **grey)
    tifffile.imwrite(folder / "ij.tif", _IMAGES, imagej=True, **grey)
    colours = np.stack([_IMAGES, _IMAGES // 2, _IMAGES // 3], axis=-1)
    tifffile.imwrite(folder / "colour.tif", colours, photometric="rgb")
    for suffix in ("png", "jpg", "bmp", "gif", "webp", "tif", "pgm"):
        (folder / f"{suffix}s").mkdir()
        for k, image in enumerate(_IMAGES):
            lossless: dict[str, Any] = {"lossless": True} if suffix == "webp" else {}
            Image.fromarray(image).save(folder / f"{suffix}s" / f"{k}.{suffix}", **lossless)
    (folder / "colour_png").mkdir()
    Image.fromarray(colours[0]).save(folder / "colour_png" / "a.png")
    (folder / "pages").mkdir()
    pages = [Image.fromarray(image) for image in _IMAGES]
    pages[0].save(folder / "pages" / "a.gif", save_all=True, append_images=pages[1:])
    _envi(folder)


def _envi(folder: Path) -> None:
    from spectral import envi

    facts = {"wavelength": [400.0 + k for k in range(4)], "wavelength units": "Nanometers"}
    cube = np.moveaxis(_IMAGES, 0, -1)
    envi.save_image(str(folder / "a.hdr"), cube, metadata=facts)
    envi.save_image(str(folder / "b.hdr"), cube.astype("f4"), interleave="bsq", byteorder=1)


def _runs(folder: Path) -> None:
    from psims.mzml import MzMLWriter
    from scipy.io import netcdf_file

    masses, intensities = np.linspace(100, 110, 8), _RNG.integers(1, 100, 8).astype(float)
    with MzMLWriter(str(folder / "a.mzML")) as out:
        out.controlled_vocabularies()
        out.file_description(["MS1 spectrum"])
        out.software_list([{"id": "psims", "version": "1", "params": ["python-psims"]}])
        out.instrument_configuration_list([])
        out.data_processing_list([])
        packings = ("none", "zlib", *(f"MS-Numpress {way} compression" for way in
                    ("linear prediction", "short logged float", "positive integer")))  # fmt: skip
        with out.run(id="run"), out.spectrum_list(count=len(packings)):
            for k, packing in enumerate(packings):
                out.write_spectrum(
                    masses, intensities, id=f"scan={k + 1}", params=[{"ms level": 1}],
                    scan_start_time=0.1 * k, compression=packing, encoding=64,
                )  # fmt: skip
    (folder / "a.mzML.gz").write_bytes(gzip.compress((folder / "a.mzML").read_bytes()))
    with netcdf_file(folder / "a.cdf", "w") as run:
        run.createDimension("points", 40)
        run.createDimension("scans", 5)
        for name, kind, dimension, values in (
            ("mass_values", "f8", "points", np.tile(masses, 5)),
            ("intensity_values", "f8", "points", np.tile(intensities, 5)),
            ("scan_index", "i4", "scans", 8 * np.arange(5)),
            ("scan_acquisition_time", "f8", "scans", np.arange(5.0)),
        ):
            run.createVariable(name, kind, (dimension,))[:] = values
