import base64
import gzip
import os
import tracemalloc
import zlib
from pathlib import Path

import h5py
import numpy as np
import pynumpress
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import netcdf_file

from nmfmerge.datasets.convert import bin_index, bin_lcms, bin_number
from nmfmerge.io import read
from nmfmerge.io.memory import memory_for
from nmfmerge.io.mzml import read_spectra

# seconds, MS level, masses, intensities
SCANS = [
    (60.0, 1, [100.25, 100.75, 102.5], [1.0, 2.0, 4.0]),
    (60.5, 2, [100.5, 101.5], [100.0, 200.0]),
    (61.0, 1, [101.0], [8.0]),
    (62.0, 1, [], []),
    (63.0, 1, [100.5, 102.75, 102.875], [16.0, 32.0, 64.0]),
]
FULL = [[1, 0, 0, 0], [2, 8, 0, 16], [0, 0, 0, 0], [4, 0, 0, 96]]  # bins around 100 to 103
MASSES = [100.25, 100.6731, 102, 102.82]  # means of the points, weighted; one bin is empty
TIMES = [60.0, 61.0, 62.0, 63.0]


PLAIN, ZLIB = ("1000576", "no compression"), ("1000574", "zlib compression")
FLOAT64 = ("1000523", "64-bit float")


def plain(values, kind):
    return np.asarray(values, dtype="<f8").tobytes(), PLAIN, FLOAT64


def zipped(values, kind):
    return zlib.compress(np.asarray(values, dtype="<f8").tobytes()), ZLIB, FLOAT64


def binary(values, kind, pack):
    """An array; ``pack`` gives its bytes and the terms that say what they are."""
    data, *terms = pack(values, kind)
    data = base64.b64encode(data).decode() if len(values) else ""
    terms += [{"mz": ("1000514", "m/z array"), "intensity": ("1000515", "intensity array")}[kind]]
    terms = "".join(
        f'<cvParam cvRef="MS" accession="MS:{code}" name="{text}" value=""/>'
        for code, text in terms
    )
    return (
        f'<binaryDataArray encodedLength="{len(data)}">{terms}<binary>{data}</binary>'
        "</binaryDataArray>"
    )


def level_term(level, grouped):
    """The MS level, or a reference to the group of terms that has it."""
    if grouped:
        return f'<referenceableParamGroupRef ref="level{level}"/>'
    return f'<cvParam cvRef="MS" accession="MS:1000511" name="ms level" value="{level}"/>'


def groups():
    inner = "".join(
        f'<referenceableParamGroup id="level{level}">{level_term(level, False)}'
        "</referenceableParamGroup>"
        for level in (1, 2)
    )
    return f'<referenceableParamGroupList count="2">{inner}</referenceableParamGroupList>'


def spectrum(k, scan, minutes, pack, grouped):
    time, level, masses, intensities = scan
    unit = ("UO:0000031", "minute") if minutes else ("UO:0000010", "second")
    return f"""
    <spectrum index="{k}" id="scan={k + 1}" defaultArrayLength="{len(masses)}">
      {level_term(level, grouped)}
      <scanList count="1"><scan>
        <cvParam cvRef="MS" accession="MS:1000016" name="scan start time"
          value="{time / 60 if minutes else time}"
          unitCvRef="UO" unitAccession="{unit[0]}" unitName="{unit[1]}"/>
      </scan></scanList>
      <binaryDataArrayList count="2">
        {binary(masses, "mz", pack)}{binary(intensities, "intensity", pack)}
      </binaryDataArrayList>
    </spectrum>"""


def write_mzml(path, scans=SCANS, minutes=False, pack=plain, grouped=False):
    spectra = "".join(spectrum(k, scan, minutes, pack, grouped) for k, scan in enumerate(scans))
    text = (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<mzML xmlns="http://psi.hupo.org/ms/mzml" version="1.1.0">'
        f'{groups()}<run id="run">'
        f'<spectrumList count="{len(scans)}">{spectra}</spectrumList></run></mzML>\n'
    )
    raw = text.encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def write_andi(path, scans=SCANS, leave_out=()):
    scans = [scan for scan in scans if scan[1] == 1]
    lengths = [len(scan[2]) for scan in scans]
    with netcdf_file(path, "w") as run:
        run.createDimension("points", sum(lengths))
        run.createDimension("scans", len(scans))
        columns = {
            "mass_values": ("f8", "points", np.concatenate([scan[2] for scan in scans])),
            "intensity_values": ("f8", "points", np.concatenate([scan[3] for scan in scans])),
            "scan_index": ("i4", "scans", np.cumsum([0, *lengths[:-1]])),
            "scan_acquisition_time": ("f8", "scans", [scan[0] for scan in scans]),
        }
        for name, (kind, dimension, values) in columns.items():
            if name not in leave_out:
                run.createVariable(name, kind, (dimension,))[:] = values
    return path


WRITERS = {
    "x.mzML": write_mzml,
    "x.mzML.gz": write_mzml,
    "x.cdf": write_andi,
    "x.CDF": write_andi,
    "x.nc": write_andi,
}


@pytest.fixture(params=WRITERS)
def run(request, tmp_path):
    return WRITERS[request.param](tmp_path / request.param)


def test_a_run_is_summed_in_bins(run):
    data = read(run)
    np.testing.assert_array_equal(data.X, FULL)
    assert data.name == "x"
    assert data.rows.name == "m/z"
    assert data.columns.label == "retention time (s)"
    np.testing.assert_array_equal(data.rows.values, MASSES)
    np.testing.assert_array_equal(data.columns.values, TIMES)


def test_transpose_puts_scans_in_rows(run):
    data = read(run, transpose=True)
    np.testing.assert_array_equal(data.X, np.transpose(FULL))
    assert data.rows.name == "retention time"


@pytest.mark.parametrize(
    ("options", "X", "rows", "columns"),
    [
        ({"mz_bin": 2.0}, [[3, 0, 0, 16], [4, 8, 0, 96]], [100.5132, 102.6852], TIMES),
        (
            {"mz_bin": 0.5, "mz_min": 102, "mz_max": 103},
            [[0, 0, 0, 0], [4, 0, 0, 96]],
            [102.25, 102.82],
            TIMES,
        ),
        ({"mz_min": 100.5, "mz_max": 101.5}, [[2, 8, 0, 16]], [100.6731], TIMES),
        ({"mz_min": 99, "mz_max": 101}, [[0, 0, 0, 0], [3, 8, 0, 16]], [99.5, 100.6574], TIMES),
        ({"mz_max": 101.5}, [[1, 0, 0, 0], [2, 8, 0, 16]], [100.25, 100.6731], TIMES),
        ({"time_bin": 2.0}, [[1, 0], [10, 16], [0, 0], [4, 96]], None, [61, 63]),
        (
            {"time_bin": 1.5, "time_min": 59},
            [[1, 0, 0], [2, 8, 16], [0, 0, 0], [4, 0, 96]],
            None,
            None,
        ),
        ({"time_min": 61, "time_max": 62}, [[8, 0]], [101], [61, 62]),
        (
            {"time_bin": 1.0, "time_min": 60, "time_max": 62},
            [[1, 0], [2, 8], [0, 0], [4, 0]],
            [100.25, 100.95, 102, 102.5],
            [60.5, 61.5],
        ),
    ],
)
def test_bins_and_ranges_are_used(run, options, X, rows, columns):
    data = read(run, **options)
    found = data.X.toarray() if sp.issparse(data.X) else data.X
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(data.rows.values, MASSES if rows is None else rows)
    expected = [59.75, 61.25, 62.75] if columns is None else columns
    np.testing.assert_array_equal(data.columns.values, expected)


def test_the_description_says_what_the_masses_are(run):
    said = "; m/z are means of the points in a bin, weighted by intensity."
    assert read(run).description == "LC-MS run in bins of 1 Da" + said
    in_time = read(run, mz_bin=0.5, time_bin=2.0).description
    assert in_time == "LC-MS run in bins of 0.5 Da and of 2 s" + said


@pytest.mark.parametrize("write", [write_mzml, write_andi])
def test_a_bin_has_the_accurate_mass_of_its_points(tmp_path, write):
    """Masses that scatter around 180.0634 and 180.99 are nominally 180 and 181."""
    rng = np.random.default_rng(0)
    scans = [
        (float(k), 1, [180.0634 + 1e-3 * rng.standard_normal(), 180.99], [1e6 * rng.random(), 10.0])
        for k in range(50)
    ]
    data = read(write(tmp_path / ("x.mzML" if write is write_mzml else "x.cdf"), scans))
    masses, heights = (np.array([scan[place][0] for scan in scans]) for place in (2, 3))
    assert data.X.shape == (2, 50)
    np.testing.assert_allclose(data.X[0], heights)
    expected = [np.average(masses, weights=heights), 180.99]
    np.testing.assert_allclose(data.rows.values, expected, atol=6e-5)
    assert data.rows.values[0] == pytest.approx(180.0634, abs=5e-4)


def test_nominal_masses_are_whole_numbers_and_single_precision_is_not_seen(tmp_path):
    nominal = [(60.0, 1, [72.9, 73.1, 147.0], [1.0, 1.0, 5.0])]
    assert read(write_mzml(tmp_path / "x.mzML", nominal)).rows.values[[0, -1]].tolist() == [73, 147]
    single = [(60.0, 1, [float(np.float32(200.1)), float(np.float32(391.285))], [1.0, 1.0])]
    data = read(write_mzml(tmp_path / "y.mzML", single), mz_bin=0.1)
    assert data.rows.values[[0, -1]].tolist() == [200.1, 391.285]


def test_a_bin_without_a_mean_has_its_centre(tmp_path):
    """Intensities of a baseline that was taken off too far."""
    scans = [(60.0, 1, [100.2, 101.3, 101.1], [-5.0, -1.0, 1.0])]
    assert read(write_mzml(tmp_path / "x.mzML", scans)).rows.values.tolist() == [100, 101]


def test_fine_bins_are_kept_sparse(run):
    data = read(run, mz_bin=0.125)
    assert data.X.format == "csr"
    assert data.X.nnz == 7
    np.testing.assert_array_equal(data.X.sum(axis=0).ravel(), np.sum(FULL, axis=0)[None])


@pytest.mark.parametrize("minutes", [False, True])
@pytest.mark.parametrize("pack", [plain, zipped])
def test_minutes_and_packed_arrays_of_mzml(tmp_path, minutes, pack):
    data = read(write_mzml(tmp_path / "x.mzML", minutes=minutes, pack=pack))
    np.testing.assert_array_equal(data.X, FULL)
    np.testing.assert_allclose(data.columns.values, TIMES, rtol=1e-15)


def test_minutes_may_have_no_name(tmp_path):
    path = write_mzml(tmp_path / "x.mzML", minutes=True)
    path.write_text(path.read_text().replace('unitName="minute"', ""))
    np.testing.assert_allclose(read(path).columns.values, TIMES, rtol=1e-15)


def test_terms_in_a_group_count(tmp_path):
    data = read(write_mzml(tmp_path / "x.mzML", grouped=True))
    np.testing.assert_array_equal(data.X, FULL)


def test_another_ms_level_is_read(tmp_path, refused):
    path = write_mzml(tmp_path / "x.mzML")
    data = read(path, ms_level=2)
    np.testing.assert_array_equal(data.X, [[100], [200]])
    np.testing.assert_array_equal(data.rows.values, [100.5, 101.5])
    np.testing.assert_array_equal(data.columns.values, [60.5])
    refused(path, "no scans of MS level 3", ms_level=3)


def test_netcdf_has_no_ms_levels(tmp_path):
    with pytest.raises(ValueError, match=r"ms_level=1 is not an option of the format 'netcdf'"):
        read(write_andi(tmp_path / "x.cdf"), ms_level=1)


def test_ranges_without_data_are_refused(run, refused):
    refused(run, "no scan between", "60 s to 63 s", time_min=100)
    refused(run, "no points in this range", mz_min=500)


def test_a_run_cut_short_is_refused(run, refused, cut):
    refused(cut(run, 0.8))


def test_a_run_without_points_is_refused(tmp_path, refused):
    silent = [(60.0, 1, [], []), (61.0, 1, [], [])]
    refused(write_mzml(tmp_path / "x.mzML", silent), "no scans with points")
    refused(write_mzml(tmp_path / "y.mzML", []), "no scans of MS level 1")


@pytest.mark.parametrize(
    "scans",
    [
        [(60.0, 1, [100.0, 101.0], [1.0])],
        [(60.0, 1, [100.0, 101.0], [1.0]), (61.0, 1, [100.0], [3.0, 4.0])],  # as many in sum
        [(60.0, 1, [], [1.0])],
    ],
)
def test_a_scan_has_as_many_intensities_as_masses(tmp_path, refused, scans):
    refused(
        write_mzml(tmp_path / "x.mzML", scans),
        f"{len(scans[0][2])} masses and 1 intensities in spectrum scan=1",
    )


def test_a_scan_has_as_many_points_as_it_says(tmp_path, refused):
    path = write_mzml(tmp_path / "x.mzML")
    text = path.read_text()
    path.write_text(text.replace('defaultArrayLength="3"', 'defaultArrayLength="4"', 1))
    refused(path, "3 masses and 3 intensities in spectrum scan=1, which is said to have 4 points")


@pytest.mark.parametrize(
    "starts", [[0, 3, 1, 4], [1, 3, 4, 4], [-5, 3, 4, 4], [0, 3, 4, 10**9]], ids=str
)
def test_scans_of_netcdf_fit_its_points(tmp_path, refused, starts):
    path = write_andi(tmp_path / "x.cdf")
    with netcdf_file(path, "a") as run:
        run.variables["scan_index"][:] = starts
    refused(path, "do not fit together")


def test_masses_must_be_numbers(tmp_path, refused):
    scans = [(60.0, 1, [100.0, np.nan], [1.0, 2.0])]
    refused(write_mzml(tmp_path / "x.mzML", scans), "masses or times that are not numbers")
    scans = [(60.0, 1, [100.0, -5.0], [1.0, 2.0])]
    refused(write_mzml(tmp_path / "y.mzML", scans), "an m/z of -5")


def test_netcdf_of_another_kind_is_refused(tmp_path, refused):
    path = write_andi(tmp_path / "x.cdf", leave_out=("scan_index",))
    refused(path, "no variable 'scan_index'", "not an LC-MS run")
    with h5py.File(tmp_path / "y.nc", "w") as file:
        file["X"] = np.ones((2, 2))
    refused(tmp_path / "y.nc", "netCDF-4: convert it to netCDF-3")


@pytest.mark.parametrize("packing", ["linear", "slof", "pic"])
@pytest.mark.parametrize("zipped", [False, True])
def test_numpress_arrays_of_mzml(tmp_path, packing, zipped):
    """Masses packed by linear prediction, intensities by any of the three ways."""

    def pack(values, kind):
        encode = "linear" if kind == "mz" else packing
        scale = {"linear": (1e6,), "slof": (3000.0,), "pic": ()}[encode]
        raw = getattr(pynumpress, f"encode_{encode}")(np.asarray(values, dtype=float), *scale)
        codes = ("linear", "pic", "slof")
        code = (1002746 if zipped else 1002312) + codes.index(encode)
        raw = raw.tobytes()
        return zlib.compress(raw) if zipped else raw, (str(code), f"MS-Numpress {encode}")

    path = write_mzml(tmp_path / "x.mzML", pack=pack)
    np.testing.assert_allclose(read(path).X, FULL, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["<f4", "<i4", "<i8"])
def test_other_numbers_of_mzml(tmp_path, dtype):
    """Intensities in single precision or whole numbers."""
    name = {"<f4": ("1000521", "32-bit float"), "<i4": ("1000519", "32-bit integer"),
            "<i8": ("1000522", "64-bit integer")}[dtype]  # fmt: skip

    def pack(values, kind):
        kept = np.asarray(values, dtype=dtype if kind == "intensity" else "<f8")
        return kept.tobytes(), PLAIN, name if kind == "intensity" else FLOAT64

    np.testing.assert_array_equal(read(write_mzml(tmp_path / "x.mzML", pack=pack)).X, FULL)


def test_a_packing_that_is_not_known_is_named(tmp_path, refused):
    def pack(values, kind):
        return b"????", ("1009999", "shrink wrap")

    refused(write_mzml(tmp_path / "x.mzML", pack=pack), "'shrink wrap'", "plain or with zlib")


def test_a_spectrum_without_a_time_is_refused(tmp_path, refused):
    path = write_mzml(tmp_path / "x.mzML")
    path.write_text(path.read_text().replace("MS:1000016", "MS:1000017", 1))
    refused(path, "spectrum scan=1 has no scan start time")


@pytest.mark.filterwarnings("ignore")
def test_mzml_of_another_program(tmp_path):
    """With an index, chromatograms, minutes, and the many terms that real files have."""
    from psims.mzml import MzMLWriter

    with MzMLWriter(str(tmp_path / "x.mzML")) as out:
        out.controlled_vocabularies()
        out.file_description(["MS1 spectrum", "MSn spectrum"])
        out.software_list([{"id": "psims", "version": "1", "params": ["python-psims"]}])
        out.instrument_configuration_list([])
        out.data_processing_list([])
        with out.run(id="run"):
            with out.spectrum_list(count=len(SCANS)):
                for k, (time, level, masses, intensities) in enumerate(SCANS):
                    out.write_spectrum(
                        np.array(masses), np.array(intensities), id=f"scan={k + 1}",
                        params=[{"ms level": level}, {"total ion current": sum(intensities)}],
                        scan_start_time=time / 60,
                    )  # fmt: skip
            with out.chromatogram_list(count=1):
                out.write_chromatogram(np.arange(3.0), np.ones(3), id="TIC")
    data = read(tmp_path / "x.mzML")
    np.testing.assert_array_equal(data.X, FULL)
    np.testing.assert_allclose(data.columns.values, TIMES, rtol=1e-15)


def test_spectra_do_not_gather_in_memory(tmp_path):
    scans = [(float(k), 1, [100.0] * 2000, [1.0] * 2000) for k in range(200)]
    path = write_mzml(tmp_path / "x.mzML", scans)
    memory = memory_for(path, None)
    tracemalloc.start()
    count = sum(len(spectrum.masses) for spectrum in read_spectra(path, 1, memory))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 400_000
    assert peak < 0.1 * path.stat().st_size


def test_a_real_run_has_the_bins_of_the_papers(real):
    path = Path(os.environ["NMFMERGE_DATA"]) / "faahko_wt15.CDF"
    data = read(path, mz_min=200, mz_max=600)
    X, seconds = bin_lcms(path, n_scans=data.X.shape[1], scans_per_bin=1)
    np.testing.assert_allclose(data.X, X, rtol=1e-12)
    np.testing.assert_array_equal(data.columns.values, seconds)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([("0.1", 1), ("0.01", 2), ("0.2", 1), ("0.3", 1), ("0.05", 2), ("1", 0)]),
    st.lists(st.integers(300, 20_000), min_size=1, max_size=20, unique=True),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([write_mzml, write_andi]),
    st.booleans(),
)
def test_masses_at_the_edges_of_bins_begin_these_bins(
    tmp_path_factory, width, multiples, kind, write, from_the_lowest
):
    """Decimal multiples of the width of a bin, which neither precision has as they are written."""
    text, digits = width
    multiples = np.sort(multiples)
    masses = [float(kind(f"{k * float(text):.{digits}f}")) for k in multiples]
    path = write(tmp_path_factory.mktemp("edges") / "x.mzML", [(1.0, 1, masses, multiples)])
    path = path.rename(path.with_suffix(".mzML" if write is write_mzml else ".cdf"))
    options = {}
    if from_the_lowest:
        low = f"{multiples[0] * float(text):.{digits}f}"
        high = f"{multiples[-1] * float(text):.{digits}f}"
        options = {"mz_min": float(low), "mz_max": float(high) + float(text) / 2}
    data = read(path, mz_bin=float(text), **options)
    X = data.X.toarray() if sp.issparse(data.X) else data.X
    filled = np.flatnonzero(X)
    np.testing.assert_array_equal(filled, multiples - multiples[0])
    np.testing.assert_array_equal(X[filled, 0], multiples)
    np.testing.assert_allclose(data.rows.values[filled], masses, atol=6e-5)


@given(st.integers(1, 2000), st.sampled_from([0.1, 0.2, 0.3, 0.7]), st.integers(0, 5000))
def test_times_at_the_edges_of_bins_begin_these_bins(n, width, first):
    low = first * width
    at = np.array([float(f"{(first + k) * width:.1f}") for k in range(n)])
    np.testing.assert_array_equal(bin_index(at, low, width, n + 1), np.arange(n))


@given(st.integers(50, 3000), st.integers(1, 999_999), st.sampled_from([0.01, 0.1, 1.0]))
def test_masses_inside_a_bin_stay_in_it(number, millionths, width):
    """Rounding moves only what is at an edge: in double precision little, in single one step."""
    mass = np.array([(number + millionths / 1e6) * width])
    assert bin_number(mass, 0.0, width)[0] == number
    below = np.nextafter(np.float32(number), np.float32(0), dtype=np.float32)
    assert bin_number(np.array([below]), 0.0, 1.0)[0] == number - 1
