"""From an mzML written by psims to spectra that pyteomics and matchms read."""

import csv
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmfmerge import export, nmf, nmf_merge
from nmfmerge.cli import main
from nmfmerge.datasets import lcms_like
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.export.base import ExportSource
from nmfmerge.export.lcms import write_spectra
from nmfmerge.fields.lcms import apex_and_width, bin_width, compounds, peak_table
from nmfmerge.io import read
from nmfmerge.storage import folder, manifest
from nmfmerge.storage.result_tables import component_table

TIMES = 60 + 2.0 * np.arange(80)  # seconds
COMPOUNDS = [  # peaks (m/z, height), apex and standard deviation in seconds
    ([(150.1, 1000), (151.1, 160), (91.05, 400)], 100.0, 6.0),
    ([(230.2, 700), (231.2, 105), (115.05, 300), (77.04, 50)], 160.0, 8.0),
    ([(310.3, 300), (311.3, 60), (210.2, 90)], 190.0, 5.0),
]


def scans():
    """Masses and intensities at each time; masses scatter within a thousandth of a Da."""
    rng = np.random.default_rng(0)
    for seconds in TIMES:
        points = [
            (mz + 1e-3 * rng.standard_normal(), height * np.exp(-0.5 * ((seconds - at) / s) ** 2))
            for peaks, at, s in COMPOUNDS
            for mz, height in peaks
        ]
        yield seconds, *np.array(sorted(points)).T


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """An LC-MS run, by psims."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from psims.mzml import MzMLWriter

        path = tmp_path_factory.mktemp("run") / "run.mzML"
        with MzMLWriter(str(path)) as out:
            out.controlled_vocabularies()
            out.file_description(["MS1 spectrum"])
            out.software_list([{"id": "psims", "version": "1", "params": ["python-psims"]}])
            out.instrument_configuration_list([])
            out.data_processing_list([])
            with out.run(id="run"), out.spectrum_list(count=len(TIMES)):
                for k, (seconds, masses, intensities) in enumerate(scans()):
                    out.write_spectrum(
                        masses, intensities, id=f"scan={k + 1}", params=[{"ms level": 1}],
                        scan_start_time=seconds / 60,
                    )  # fmt: skip
    return path


pytestmark = pytest.mark.filterwarnings(  # psims leaves its vocabulary open
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)


@pytest.fixture(scope="module", params=[[], ["--transpose"], ["--mz-bin", "0.5"]], ids=str)
def made(request, run, tmp_path_factory):
    """The folder of a fit by the command."""
    out = tmp_path_factory.mktemp("fit") / "out"
    words = ["fit", str(run), "-r", "3", "--no-report", "-o", str(out), *request.param]
    assert main(words) == 0
    return out


def lines_of(path):
    with open(path, newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def component_of(table, base_peak):
    """The line of the compound with this base peak, to a few ppm."""
    found = [line for line in table if abs(float(line["base peak m/z"]) - base_peak) < 1e-3]
    assert len(found) == 1
    return found[0]


def test_components_are_compounds(made):
    table = lines_of(made / "components.csv")
    assert [int(line["component"]) for line in table] == [1, 2, 3]
    assert sum(float(line["share (%)"]) for line in table) == pytest.approx(100)
    for peaks, apex, deviation in COMPOUNDS:
        line = component_of(table, peaks[0][0])
        assert float(line["retention time at apex (s)"]) == apex
        expected = 2 * np.sqrt(2 * np.log(2)) * deviation
        assert float(line["width at half height (s)"]) == pytest.approx(expected, rel=0.02)
        assert int(line["m/z peaks"]) == len(peaks)


def test_peaks_have_the_intensities_of_the_compounds(made):
    table, peaks_table = lines_of(made / "components.csv"), lines_of(made / "peaks.csv")
    for peaks, _, _ in COMPOUNDS:
        number = component_of(table, peaks[0][0])["component"]
        found = [line for line in peaks_table if line["component"] == number]
        assert len(found) == len(peaks)
        for line, (mz, height) in zip(found, sorted(peaks), strict=True):
            assert float(line["m/z"]) == pytest.approx(mz, abs=1e-3)
            assert len(line["m/z"]) <= len("123.4567")
            assert float(line["intensity at apex"]) == pytest.approx(height, rel=0.02)
            relative = 100 * height / peaks[0][1]
            assert float(line["intensity (% of base peak)"]) == pytest.approx(relative, rel=0.02)


def assert_spectra(spectra, out, scale=None):
    """Spectra as (name, seconds, masses, intensities) are those of the folder."""
    fit = folder.read(out)
    found = list(compounds(fit.result, fit.data))
    assert len(spectra) == len(found) == 3
    for k, (one, (name, seconds, masses, intensities)) in enumerate(
        zip(found, spectra, strict=True), 1
    ):
        assert name == f"component {k}"
        assert float(seconds) == pytest.approx(one.seconds, rel=1e-8)
        np.testing.assert_allclose(masses, one.mz, rtol=1e-8)
        if scale is None:
            np.testing.assert_allclose(intensities, one.intensity, rtol=1e-8)
        else:
            np.testing.assert_allclose(intensities, scale * one.relative / 100, atol=0.5)
            assert max(intensities) == scale


def test_pyteomics_reads_the_mgf(made):
    from pyteomics import mgf

    with mgf.read(str(made / "spectra.mgf"), use_index=False, convert_arrays=1) as spectra:
        found = list(spectra)
    assert_spectra(
        [(s["params"]["title"], s["params"]["rtinseconds"], s["m/z array"], s["intensity array"])
         for s in found], made,
    )  # fmt: skip
    for spectrum in found:
        base = spectrum["m/z array"][np.argmax(spectrum["intensity array"])]
        assert spectrum["params"]["pepmass"][0] == base


@pytest.mark.matchms
def test_matchms_reads_both(made):
    pytest.importorskip("matchms")
    from matchms.importing import load_from_mgf, load_from_msp

    for name, load, scale, key in (
        ("spectra.msp", load_from_msp, 999, "compound_name"),
        ("spectra.mgf", load_from_mgf, None, "title"),
    ):
        found = list(load(str(made / name)))
        assert_spectra(
            [(s.get(key), s.get("retention_time"), s.peaks.mz, s.peaks.intensities) for s in found],
            made, scale,
        )  # fmt: skip


def parse_msp(path):
    """Spectra of an MSP file, by its rules alone."""
    for block in path.read_text("utf-8").strip().split("\n\n"):
        lines = block.splitlines()
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        peaks = np.array([line.split() for line in lines[len(fields) :]], dtype=float)
        assert int(fields["Num Peaks"]) == len(peaks)
        yield fields, peaks


def test_the_msp_has_what_search_programs_want(made):
    spectra = list(parse_msp(made / "spectra.msp"))
    assert_spectra([(f["Name"], f["RetentionTime"], *peaks.T) for f, peaks in spectra], made, 999)
    for fields, peaks in spectra:
        assert "retention time in s" in fields["Comment"]
        assert (np.diff(peaks[:, 0]) > 0).all()
        assert (peaks[:, 1] >= 1).all()


def test_folders_that_have_spectra_are_ours(made):
    assert manifest.not_ours(made) == []


def test_without_retention_time_there_are_no_times(tmp_path):
    data = lcms_like(30, 40, 4)  # m/z × scan
    result = nmf_merge(data.X, 4)
    assert export.write(result, data, tmp_path) == {}
    heads = lines_of(tmp_path / "components.csv")[0]
    assert "peak scan" in heads
    assert not any("(s)" in head for head in heads)
    assert "RTINSECONDS" not in (tmp_path / "spectra.mgf").read_text("utf-8")
    assert "RetentionTime" not in (tmp_path / "spectra.msp").read_text("utf-8")


def test_m_over_z_without_bins_are_not_called_bins(tmp_path):
    mz = np.array([100.1, 250.2, 251.2, 400.7])
    X = np.random.default_rng(0).random((4, 6))
    data = Dataset("peak list", X, None, Axis("m/z", mz), Axis("sample", np.array(list("abcdef"))))
    assert bin_width(data) is None
    export.write(nmf(X, 2), data, tmp_path)
    assert "m/z" in lines_of(tmp_path / "peaks.csv")[0]
    assert "base peak m/z" in lines_of(tmp_path / "components.csv")[0]
    assert "bins" not in (tmp_path / "spectra.msp").read_text("utf-8")


@given(
    st.sampled_from([1.0, 0.1, 0.01, 0.3, 1.00045]),
    st.integers(0, 200_000),
    st.sets(st.integers(2, 5000), max_size=30),
)
def test_bins_of_which_some_were_dropped_are_bins(width, first, more):
    kept = np.array(sorted({0, 1} | more))
    axis = Axis("m/z", width * (np.arange(first, first + 5001) + 0.5)[kept])
    data = Dataset("x", None, None, axis, Axis("scan", np.arange(3)))
    assert bin_width(data) == pytest.approx(width, rel=1e-9)
    if len(kept) > 2:
        off = axis.values + np.eye(len(kept))[-1] * 0.01 * width  # the last is no multiple
        assert bin_width(replace(data, rows=Axis("m/z", off))) is None


@pytest.mark.parametrize("transpose", [False, True])
def test_tables_and_spectra_tell_of_bins_though_some_were_dropped(tmp_path, transpose):
    X = np.random.default_rng(0).random((6, 8))
    centres = Axis("m/z", np.array([100.5, 101.5, 104.5, 105.5, 110.5, 120.5]))
    data = Dataset("run", X, None, centres, Axis("retention time", np.arange(8.0), "s"))
    if transpose:
        data = replace(data, X=X.T, rows=data.columns, columns=data.rows)
    export.write(nmf(data.X, 2), data, tmp_path)
    assert "m/z (bin centre)" in lines_of(tmp_path / "peaks.csv")[0]
    assert "base peak m/z (bin centre)" in lines_of(tmp_path / "components.csv")[0]
    assert "centres of bins of 1 Da" in (tmp_path / "spectra.msp").read_text("utf-8")


@pytest.mark.parametrize("axes", [("pixel", "time"), ("gene", "cell"), ("row", "column")])
def test_other_data_have_no_spectra(tmp_path, axes):
    X = np.random.default_rng(0).random((5, 6))
    data = Dataset(
        "x", X, None, *(Axis(*pair) for pair in zip(axes, map(np.arange, (5, 6)), strict=True))
    )
    export.write(nmf(X, 2), data, tmp_path)
    assert not list(tmp_path.glob("spectra.*"))
    assert not (tmp_path / "peaks.csv").exists()


def test_the_threshold_decides_what_is_a_peak(tmp_path):
    data = lcms_like(30, 40, 4)
    result = nmf_merge(data.X, 4)
    relative = 100 * result.W / result.W.max(axis=0)
    for threshold in (0.0, 0.1, 5.0, 100.0):
        expected = ((relative >= threshold) & (relative > 0)).sum()
        assert peak_table(result, data, threshold).n_lines == expected
        write_spectra(tmp_path, ExportSource(result, data), threshold)
        assert sum(len(peaks) for _, peaks in parse_msp(tmp_path / "spectra.msp")) == expected


def test_a_component_that_is_zero_has_no_spectrum(tmp_path):
    from dataclasses import replace

    data = lcms_like(30, 40, 4)
    result = nmf_merge(data.X, 4)
    W, H = result.W.copy(), result.H.copy()
    W[:, 1] = 0
    H[2] = 0
    result = replace(result, W=W, H=H, names=("a\nb", "2", "3", "caf\udce9"))
    write_spectra(tmp_path, ExportSource(result, data))
    names = [fields["Name"] for fields, _ in parse_msp(tmp_path / "spectra.msp")]
    assert names == ["a b", "caf?"]
    table = component_table(result, data)
    counts = dict(zip(table.heads, table.columns, strict=True))["m/z peaks"]
    assert [count > 0 for count in counts] == [True, False, False, True]


@pytest.mark.parametrize("step", [0.5, 2.0, 3.3])
def test_widths_are_those_of_triangles(step):
    """A triangle is a line between scans too, so its width is exact."""
    t = 100 + step * np.arange(41)
    profile = np.maximum(0, 1 - np.abs(np.arange(41) - 17) / 6)
    assert apex_and_width(t, profile) == pytest.approx((t[17], 6 * step), rel=1e-12)
    shuffled = np.random.default_rng(0).permutation(41)
    assert apex_and_width(t[shuffled], profile[shuffled]) == pytest.approx((t[17], 6 * step))


def test_a_second_peak_does_not_widen_the_first():
    profile = np.array([0, 1, 2, 4, 2, 0.5, 0.5, 3, 3, 0])
    assert apex_and_width(np.arange(10.0), profile) == (3.0, 2.0)


def test_a_peak_that_the_run_cuts_off_has_no_width():
    seconds = np.arange(5.0)
    for profile in ([4, 3, 1, 0, 0], [0, 1, 3, 4, 4], [1, 1, 1, 1, 1]):
        apex, width = apex_and_width(seconds, np.array(profile, dtype=float))
        assert np.isnan(width)
        assert profile[int(apex)] == max(profile)
    assert np.isnan(apex_and_width(seconds, np.zeros(5))).all()


def test_a_real_run_has_compounds(real, tmp_path):
    import os
    from pathlib import Path

    data = read(
        Path(os.environ["NMFMERGE_DATA"]) / "faahko_wt15.CDF",
        mz_min=200, mz_max=600, time_min=2500, time_max=3000,
    )  # fmt: skip
    export.write(nmf_merge(data.X, 8, n_init=1, tol=1e-3), data, tmp_path)
    table = lines_of(tmp_path / "components.csv")
    assert len(table) == 8
    assert all(2500 <= float(line["retention time at apex (s)"]) <= 3000 for line in table)
    assert all(200 < float(line["base peak m/z"]) < 600 for line in table)
