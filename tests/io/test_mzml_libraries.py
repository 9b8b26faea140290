"""mzML written by one library of the field and read by another: ours has the same scans."""

import base64
import os
import re
import warnings
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nmfmerge.datasets.convert import read_andi_run
from nmfmerge.io import read
from nmfmerge.io.memory import memory_for
from nmfmerge.io.mzml import read_spectra

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from psims.mzml import MzMLWriter
    from pyteomics import mzml

pytestmark = pytest.mark.filterwarnings(  # psims leaves its vocabulary open
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)

LINEAR, SLOF, PIC = (
    f"MS-Numpress {way} compression"
    for way in ("linear prediction", "short logged float", "positive integer")
)
ZIPPED = {"MS:1002312": "MS:1002746", "MS:1002313": "MS:1002747", "MS:1002314": "MS:1002748"}

# packing of masses and of intensities, their bits, and whether zlib follows MS-Numpress
ENCODINGS = [
    *((packing, packing, bits, False) for packing in ("none", "zlib") for bits in (32, 64)),
    *((LINEAR, other, 64, zipped) for other in (LINEAR, SLOF, PIC) for zipped in (False, True)),
    ("zlib", SLOF, 64, False),
]


def write(path, scans):
    """Scans (seconds, masses, intensities), by psims, each in the next of the encodings."""
    with warnings.catch_warnings(), MzMLWriter(str(path)) as out:
        warnings.simplefilter("ignore")
        out.controlled_vocabularies()
        out.file_description(["MS1 spectrum"])
        out.software_list([{"id": "psims", "version": "1", "params": ["python-psims"]}])
        out.instrument_configuration_list([])
        out.data_processing_list([])
        with out.run(id="run"), out.spectrum_list(count=len(scans)):
            for k, (seconds, masses, intensities) in enumerate(scans):
                for_masses, for_intensities, bits, zipped = ENCODINGS[k % len(ENCODINGS)]
                out.write_spectrum(
                    masses, intensities, id=f"{'zipped' if zipped else 'scan'}={k + 1}",
                    params=[{"ms level": 1}], scan_start_time=seconds / 60, encoding=bits,
                    compression={"m/z array": for_masses, "intensity array": for_intensities},
                )  # fmt: skip
    parts = re.split(r"(?=<spectrum )", path.read_text())
    array = re.compile("<binaryDataArray .*?</binaryDataArray>", re.DOTALL)
    path.write_text("".join(array.sub(zip_array, p) if 'id="zipped=' in p else p for p in parts))
    return path


def zip_array(found):
    """An array that psims packed with MS-Numpress, with zlib after it, which psims cannot."""
    text, packed = found[0], re.search("<binary>(.*?)</binary>", found[0])[1]
    again = base64.b64encode(zlib.compress(base64.b64decode(packed))).decode()
    name = re.search(r'accession="(MS:100231[234])"[^>]*name="([^"]*)"', text)
    for old, new in (
        (packed, again),
        (name[1], ZIPPED[name[1]]),
        (name[2], f"{name[2]} followed by zlib compression"),
    ):
        text = text.replace(old, new)
    return text


def assert_same_scans(path, n):
    ours = list(read_spectra(path, 1, memory_for(path, None)))
    with warnings.catch_warnings(), mzml.MzML(str(path), use_index=False) as theirs:
        warnings.simplefilter("ignore")
        count = 0
        for scan, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(scan.masses, other["m/z array"])
            np.testing.assert_array_equal(scan.intensities, other["intensity array"])
            count += 1
    assert count == n
    sums = [scan.intensities.sum() for scan in ours]
    X = read(path).X
    np.testing.assert_allclose(np.asarray(X.sum(axis=0)).ravel(), sums, rtol=1e-12)
    return ours


@pytest.mark.parametrize("run", ["ko15", "wt15"])
def test_a_real_run_has_the_scans_that_pyteomics_reads(real, tmp_path, run):
    times, scan, masses, intensities = read_andi_run(
        Path(os.environ["NMFMERGE_DATA"]) / f"faahko_{run}.CDF"
    )
    n = 20 * len(ENCODINGS)
    at = np.searchsorted(scan, np.arange(n + 1))
    points = [slice(*ends) for ends in pairwise(at)]
    scans = [(times[k], masses[points[k]], intensities[points[k]]) for k in range(n)]
    ours = assert_same_scans(write(tmp_path / "x.mzML", scans), n)
    for (_, mass, intensity), spectrum in zip(scans, ours, strict=True):
        np.testing.assert_allclose(spectrum.masses, mass, rtol=1e-6)
        np.testing.assert_allclose(spectrum.intensities, intensity, rtol=1e-3, atol=0.51)


@st.composite
def a_scan(draw):
    """Two points or more, whose masses are anywhere and in any order."""
    n = draw(st.integers(2, 30))
    masses = draw(arrays(float, n, elements=st.floats(1, 1e4, width=32)))
    counts = draw(arrays(float, n, elements=st.integers(0, 10**6)))
    counts[0] += not counts.any()
    return np.sort(masses) if draw(st.booleans()) else masses, counts


@settings(max_examples=8)  # of a run with all encodings; writing one takes a second
@given(st.lists(a_scan(), min_size=len(ENCODINGS), max_size=2 * len(ENCODINGS)))
def test_any_run_has_the_scans_that_pyteomics_reads(tmp_path_factory, scans):
    path = tmp_path_factory.mktemp("run") / "x.mzML"
    write(path, [(float(k), *scan) for k, scan in enumerate(scans)])
    assert_same_scans(path, len(scans))
