"""Loaders of the paper's data sets and of others that NMF is used on.

The files are not part of this repository, and the package does not read them. They are looked for in the folder named by the environment
variable NMFMERGE_DATA, then in the folder ``nmfmerge`` of the user's cache.
"""

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.io import loadmat

from nmfmerge.datasets.base import Axis, Dataset

_UNCLEAR = "terms of the original are not stated; not for redistribution"


def load_mhll() -> Dataset:
    """Amplitude spectrogram of "Mary had a little lamb" (257 × 294), rank 3."""
    return _spectrogram("mhll", 3, 16_000, 512, "First measure of Mary had a little lamb.")


def load_pf1() -> Dataset:
    """Bach, Prelude and Fugue No. 1, first 30 s, amplitude spectrogram (513 × 647), rank 13."""
    return _spectrogram("pf1", 13, 11_025, 1024, "Bach's Prelude and Fugue No. 1, first 30 s.")


def load_cbcl() -> Dataset:
    """MIT CBCL faces, 2429 images of 19 × 19 pixels as columns, rank 49."""
    X = (_array("cbcl").astype(np.float64) + 1) / 256
    source = "MIT CBCL Face Database 1"
    return _images("cbcl", X, 49, (19, 19), "F", "MIT CBCL face images", source)


def load_orl() -> Dataset:
    """ORL (AT&T) faces, 400 images of 112 × 92 pixels as columns, rank 25."""
    X = _array("orl").astype(np.float64) / 255
    source = "AT&T Laboratories Cambridge"
    return _images("orl", X, 25, (112, 92), "C", "ORL face images", source)


def load_lcms(run: str = "wt15") -> Dataset:
    """A real LC-MS run (faahKO), "wt15" (rank 17) or "ko15" (rank 23), 400 × 600."""
    ranks = {"wt15": 17, "ko15": 23}
    if run not in ranks:
        raise ValueError(f"run={run!r} is not known; expected one of 'wt15', 'ko15'")
    X = _array(f"lcms_{run}").astype(np.float64)
    return Dataset(
        name=f"lcms_{run}",
        X=X / X.max(),
        n_components=ranks[run],
        rows=Axis("m/z", 200.0 + np.arange(X.shape[0])),
        columns=Axis("scan", 2 * np.arange(X.shape[1])),
        description="LC-MS run, 1-Da bins from m/z 200, sums of two scans, scaled to maximum 1.",
        source="faahKO (Saghatelian et al. 2004), Bioconductor",
        terms=_UNCLEAR,
    )


def load_samson() -> Dataset:
    """Hyperspectral image with ground truth: 156 bands × 95·95 pixels, rank 3."""
    X = _array("samson")
    truth = loadmat(_find("samson_truth.mat"))
    return Dataset(
        name="samson",
        X=X,
        n_components=3,
        rows=Axis("band", np.arange(X.shape[0])),
        columns=Axis("pixel", np.arange(X.shape[1])),
        W=np.asarray(truth["M"]),
        H=np.asarray(truth["A"]),
        description="Soil, trees and water; W and H are reference spectra and abundances.",
        image_shape=(95, 95),
        image_order="F",
        source="Samson hyperspectral scene",
        terms=_UNCLEAR,
    )


def load_brca21() -> Dataset:
    """Mutation counts of 21 breast cancers in 96 trinucleotide contexts, rank 4."""
    lines = _find("brca21_sbs96.tsv").read_text().splitlines()
    table = [line.split("\t") for line in lines]
    return Dataset(
        name="brca21",
        X=np.array([line[1:] for line in table[1:]], dtype=np.float64),
        n_components=4,
        rows=Axis("mutation type", np.array([line[0] for line in table[1:]])),
        columns=Axis("tumour", np.array(table[0][1:])),
        description="Single-base substitutions of 21 breast cancers.",
        source="Nik-Zainal et al. 2012",
        terms=_UNCLEAR,
    )


def load_pbmc3k() -> Dataset:
    """Single-cell counts, 13,714 genes × 2,700 cells, sparse, rank 10."""
    return _counts("pbmc3k", 10, "gene", "cell", "Peripheral blood cells.", "10x Genomics PBMC 3k")


def load_tdt2() -> Dataset:
    """News articles, 9,394 documents × 19,528 terms (counts), sparse, rank 20."""
    return _counts("tdt2", 20, "document", "term", "News articles.", "NIST TDT2 corpus")


def load_swimmer() -> Dataset:
    """The swimmer benchmark, 256 stick figures of 20 × 11 pixels as columns, rank 17."""
    X = _array("swimmer").astype(np.float64)
    source = "Donoho & Stodden 2003"
    return _images("swimmer", X, 17, (20, 11), "F", "Swimmer stick figures", source)


def load_ca_mouse() -> Dataset:
    """Two-photon calcium movie, 64 · 64 pixels × 500 frames, rank 10."""
    X = _array("ca_mouse").astype(np.float64)
    source = "two-photon recording in a mouse"
    return _images("ca_mouse", X, 10, (64, 64), "C", "Calcium movie", source)


def _spectrogram(name: str, rank: int, rate: int, window: int, description: str) -> Dataset:
    X = _array(name)
    return Dataset(
        name=name,
        X=X,
        n_components=rank,
        rows=Axis("frequency", np.arange(X.shape[0]) * rate / window, "Hz"),
        columns=Axis("time", np.arange(X.shape[1]) * (window // 2) / rate, "s"),
        description=description,
        source="Leplat et al. 2020",
        terms=_UNCLEAR,
    )


def _images(
    name: str,
    X: np.ndarray,
    rank: int,
    shape: tuple[int, int],
    order: Literal["C", "F"],
    description: str,
    source: str,
) -> Dataset:
    return Dataset(
        name=name,
        X=X,
        n_components=rank,
        rows=Axis("pixel", np.arange(X.shape[0])),
        columns=Axis("image", np.arange(X.shape[1])),
        description=f"{description}, pixels as rows.",
        image_shape=shape,
        image_order=order,
        source=source,
        terms=_UNCLEAR,
    )


def _counts(
    name: str, rank: int, rows: str, columns: str, description: str, source: str
) -> Dataset:
    X: Any = sp.load_npz(_find(f"{name}_sparse.npz"))
    return Dataset(
        name=name,
        X=X.astype(np.float64),
        n_components=rank,
        rows=Axis(rows, np.arange(X.shape[0])),
        columns=Axis(columns, np.arange(X.shape[1])),
        description=description,
        source=source,
        terms=_UNCLEAR,
    )


def _array(name: str) -> np.ndarray:
    with np.load(_find(f"{name}.npz")) as archive:
        return archive["X"]


def _find(file: str) -> Path:
    """The path of a data file, or one clear error that says what to put where."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "nmfmerge"
    named = os.environ.get("NMFMERGE_DATA")
    folders = [Path(named), cache] if named else [cache]
    for folder in folders:
        if (folder / file).is_file():
            return folder / file
    looked = " and ".join(str(folder) for folder in folders)
    raise FileNotFoundError(
        f"{file} was not found in {looked}: put it there, or set the environment variable "
        "NMFMERGE_DATA to the folder that has it"
    )
