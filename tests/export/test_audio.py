"""Stems: read by soundfile, they add up to the recording, and each has its own sound."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from nmfmerge import export, nmf, nmf_merge
from nmfmerge.datasets import melody
from nmfmerge.export.audio import stems, window_and_hop
from nmfmerge.export.base import ExportSource
from nmfmerge.io import read
from nmfmerge.results.factorization import Factorization
from nmfmerge.solvers.history import Status

RATE = 8000


def a_recording(n=6000, channels=1, seed=0):
    """Tones that come and go, and some noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)[:, None] / RATE
    tones = [np.sin(2 * np.pi * f * t) * (rng.random(channels) + 0.1) for f in (440, 700, 1210)]
    gates = [np.sin(2 * np.pi * k * t) > 0 for k in (3, 5, 7)]
    sound = sum(tone * gate for tone, gate in zip(tones, gates, strict=True))
    sound += 0.05 * rng.standard_normal((n, channels))
    return 0.9 * sound / np.abs(sound).max()


def write(path, sound, subtype="PCM_16", rate=RATE):
    soundfile.write(path, sound, rate, subtype=subtype)
    return path


def the_stems(folder):
    """All files of a folder by name, as soundfile reads them."""
    return {
        path.stem: soundfile.read(path, always_2d=True)[0]
        for path in sorted((Path(folder) / "audio").glob("*.wav"))
    }


def assert_adds_up(file, folder):
    sound, rate = soundfile.read(file, always_2d=True)
    found = the_stems(folder)
    np.testing.assert_allclose(sum(found.values()), sound, rtol=0, atol=1e-6)
    for path in (folder / "audio").glob("*.wav"):
        info = soundfile.info(path)
        assert (info.samplerate, info.channels, info.subtype) == (rate, sound.shape[1], "FLOAT")
    return found


def make(file, folder, n_components=3, **options):
    data = read(file, **options)
    assert export.write(nmf(data.X, n_components, max_iter=30), data, folder, "audio") == {}
    return assert_adds_up(file, folder)


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize(
    ("suffix", "subtype"),
    [("wav", "PCM_U8"), ("wav", "PCM_16"), ("wav", "PCM_24"), ("wav", "PCM_32"), ("wav", "FLOAT"),
     ("wav", "DOUBLE"), ("flac", "PCM_16"), ("flac", "PCM_24")],
)  # fmt: skip
@pytest.mark.parametrize("channels", [1, 2])
def test_stems_add_up_to_a_recording_of_any_kind(tmp_path, suffix, subtype, channels):
    file = write(tmp_path / f"x.{suffix}", a_recording(channels=channels), subtype)
    found = make(file, tmp_path / "out", window=512)
    assert list(found) == ["component-01", "component-02", "component-03"]
    assert all(np.abs(stem).max() > 0.01 for stem in found.values())


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 300), st.integers(1, 400), st.integers(300, 1500), st.integers(1, 3),
    st.sampled_from([8000, 11025, 44100]),
)  # fmt: skip
def test_stems_add_up_for_any_window_and_hop(tmp_path_factory, window, hop, n, channels, rate):
    folder = tmp_path_factory.mktemp("stems")
    file = write(folder / "x.wav", a_recording(n, channels), "FLOAT", rate)
    data = read(file, window=window, hop=hop, channel=1)
    assert window_and_hop(data.rows, data.columns, rate) == (
        window, hop if data.X.shape[1] > 1 else window,
    )  # fmt: skip
    make(file, folder / "out", 1, window=window, hop=hop, channel=1)


def test_samples_that_no_window_covers_are_in_the_rest(tmp_path):
    file = write(tmp_path / "x.wav", a_recording(2000))
    found = make(file, tmp_path / "out", window=100, hop=150)
    sound = soundfile.read(file, always_2d=True)[0]
    between = np.arange(2000) % 150 >= 100
    np.testing.assert_allclose(found["rest"][between], sound[between], atol=1e-6)
    assert np.abs(found["rest"][~between]).max() < 1e-6


@pytest.mark.parametrize("options", [{"channel": 2}, {"channel": 2, "transpose": True}])
def test_all_channels_get_the_masks_of_the_channel_that_was_fitted(tmp_path, options):
    t = np.arange(8000) / RATE
    low, high = np.sin(2 * np.pi * 500 * t) / 2, np.sin(2 * np.pi * 2000 * t) / 2
    low[:4000] = high[4000:] = 0
    file = write(tmp_path / "x.wav", np.column_stack([low - high, low + high]), "FLOAT")
    data = read(file, **options)
    export.write(nmf_merge(data.X, 2), data, tmp_path / "out", "audio")
    found = assert_adds_up(file, tmp_path / "out")
    first, second = found["component-01"], found["component-02"]
    of_low, of_high = (first, second) if np.abs(first[6000]).any() else (second, first)
    away_from_the_change = np.r_[:2900, 5100:8000]
    for stem, channels in ((of_low, [low, low]), (of_high, [-high, high])):
        expected = np.column_stack(channels)[away_from_the_change]
        np.testing.assert_allclose(stem[away_from_the_change], expected, atol=0.01)


def test_each_of_two_tones_has_a_stem_of_its_own(tmp_path):
    t = np.arange(2 * RATE) / RATE
    tones = [np.sin(2 * np.pi * f * t) * np.sin(2 * np.pi * swell * t) ** 2 / 3
             for f, swell in ((600, 0.9), (1900, 0.4))]  # fmt: skip
    file = write(tmp_path / "x.wav", sum(tones), "PCM_24")
    data = read(file)
    export.write(nmf_merge(data.X, 2), data, tmp_path / "out", "audio")
    found = [stem[:, 0] for stem in assert_adds_up(file, tmp_path / "out").values()]
    for tone in tones:
        ratios = [decibels(tone, stem - tone) for stem in found[:2]]
        assert max(ratios) > 20
        assert min(ratios) < 3


def decibels(signal, noise):
    return 10 * np.log10(np.square(signal).sum() / np.square(noise).sum())


def test_what_the_model_has_nothing_of_is_in_the_rest(tmp_path):
    file = write(tmp_path / "x.wav", a_recording())
    data = read(file, window=256)
    result = nmf(data.X, 2, max_iter=30)
    W = result.W.copy()
    W[40:] = 0  # frequencies from 1250 Hz
    fit = replace(result, W=W)
    export.write(fit, data, tmp_path / "out", "audio")
    found = assert_adds_up(file, tmp_path / "out")
    assert np.abs(found["rest"]).max() > 0.01


@pytest.mark.parametrize("kept", [False, True])
def test_silence_stays_silence(tmp_path, kept):
    sound = a_recording(4000)
    sound[1000 * kept :] = 0
    file = write(tmp_path / "x.wav", sound)
    found = make(file, tmp_path / "out", 2, window=256)
    assert not any(np.abs(stem[2000:]).max() > 1e-6 for stem in found.values())
    assert "rest" not in found or kept


def test_stems_of_one_column(tmp_path):
    make(write(tmp_path / "x.wav", a_recording(700)), tmp_path / "out", 1, window=512)


def test_a_hundred_components_are_numbered_in_order(tmp_path):
    file = write(tmp_path / "x.wav", a_recording(3000))
    found = make(file, tmp_path / "out", 100, window=256, hop=16)
    assert [name for name in found if name != "rest"][::99] == ["component-001", "component-100"]


def test_what_is_no_recording_is_refused(tmp_path):
    data = melody()
    with pytest.raises(ValueError, match=r"audio needs a recording, .* and melody is none"):
        export.write(nmf(data.X, 2), data, tmp_path / "out", "audio")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match=r"'radio' is not an export: choose from .*audio"):
        export.write(nmf(data.X, 2), data, tmp_path / "out", "radio")


@pytest.mark.parametrize(
    "renamed", [{"rows": "freq"}, {"columns": "moment"}, {"rows": "pitch", "columns": "moment"}]
)
def test_a_recording_whose_axes_have_other_names_is_refused_for_them(tmp_path, renamed):
    data = read(write(tmp_path / "x.wav", a_recording(2000)), **renamed)
    words = r"audio needs axes that are 'frequency \(Hz\)' and 'time \(s\)', and those of .*x\.wav"
    with pytest.raises(ValueError, match=words) as e:
        export.write(nmf(data.X, 1), data, tmp_path / "out", "audio")
    assert "none" not in str(e.value)
    assert all(name in str(e.value) for name in renamed.values())


def test_a_recording_that_has_gone_is_named(tmp_path):
    file = write(tmp_path / "x.wav", a_recording(700))
    data = read(file, window=512)
    file.unlink()
    with pytest.raises(ValueError, match=r"the recording .*x\.wav, which does not exist"):
        export.write(nmf(data.X, 1), data, tmp_path / "out", "audio")


def test_memory_does_not_grow_with_the_rank(tmp_path):
    sound = a_recording(200_000)
    data = read(write(tmp_path / "x.wav", sound), window=256, hop=64)
    rng = np.random.default_rng(0)
    m, n = data.X.shape

    def peak(source):
        tracemalloc.start()
        for _ in stems(source, RATE, sound):
            pass
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    peaks = []
    low, high = 2, 80  # so far apart that what threads of other tests allocate is small beside it
    for r in (low, high):
        factors = rng.random((m, r)), rng.random((r, n))
        source = ExportSource(Factorization(*factors, 0.0, 0.0, (), Status.CONVERGED, 0.0), data)
        peaks.append(min(peak(source) for _ in range(2)))
    assert peaks[1] - peaks[0] < 6 * 8 * high * (m + n)  # copies of the factors, no spectrograms
    assert peaks[1] < 20 * sound.nbytes + 8 * high * (m + n) + 2**26


def spoken(n, pause, rng):
    """A recording with digital silence in between."""
    sound = a_recording(n, seed=rng.integers(100))
    for start, length in pause:
        sound[start : start + length] = 0
    return sound


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(300, 1200)), max_size=3),
    st.sampled_from([(128, 64), (100, 50), (128, 32), (64, 64), (90, 31)]),
    st.booleans(),
)
def test_columns_and_rows_that_were_dropped_leave_the_sounds_as_they_are(
    tmp_path_factory, pauses, windows, transpose
):
    """The same factors, with and without the frames and frequencies in which there is nothing."""
    folder = tmp_path_factory.mktemp("dropped")
    sound = spoken(4000, pauses, np.random.default_rng(0))
    file = write(folder / "x.wav", sound, "FLOAT")
    options = dict(zip(("window", "hop"), windows, strict=True))
    whole = read(file, transpose=transpose, **options)
    dropped = {"drop_zero_columns": True, "drop_zero_rows": True}
    kept = read(file, transpose=transpose, **options, **dropped)
    assert whole.X.shape == kept.X.shape or pauses
    result = nmf(whole.X, 2, max_iter=20)
    W, H = result.W * whole.X.any(axis=1)[:, None], result.H * whole.X.any(axis=0)
    fits = [replace(result, W=W, H=H)]
    fits.append(replace(result, W=W[whole.X.any(axis=1)], H=H[:, whole.X.any(axis=0)]))
    expected, found = (
        list(stems(ExportSource(fit, data), RATE, sound))
        for fit, data in zip(fits, (whole, kept), strict=True)
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("side", ["rows", "columns"])
def test_what_has_no_row_or_column_is_in_the_rest(tmp_path, side):
    """Entries are left out though there is sound in them."""
    file = write(tmp_path / "x.wav", a_recording(4000))
    data = read(file, window=100, hop=50)
    result = nmf(data.X, 2, max_iter=20)
    kept = np.r_[1, 3:17, 21:30]
    axis = replace(getattr(data, side), values=getattr(data, side).values[kept])
    part = replace(data, X=None, **{side: axis})
    factors = {"W": result.W[kept]} if side == "rows" else {"H": result.H[:, kept]}
    export.write(replace(result, **factors), part, tmp_path / "out", "audio")
    found = assert_adds_up(file, tmp_path / "out")
    assert np.abs(found["rest"]).max() > 0.01
    zeros = np.ones(data.X.shape[side == "columns"], dtype=bool)
    zeros[kept] = False
    name = "W" if side == "rows" else "H"
    silent = getattr(result, name).copy()
    silent[(zeros if side == "rows" else (slice(None), zeros))] = 0
    sound = soundfile.read(file, always_2d=True)[0]
    for k, expected in enumerate(
        stems(ExportSource(replace(result, **{name: silent}), data), RATE, sound)
    ):
        np.testing.assert_allclose(found[f"component-{k + 1:02}"], expected, atol=1e-6)


@pytest.mark.parametrize("rate", [RATE // 2 + 1, 7999, 3])
def test_a_recording_that_is_another_one_now_is_refused(tmp_path, rate):
    file = write(tmp_path / "x.wav", a_recording(4000))
    data = read(file, window=100, hop=50)
    result = nmf(data.X, 2, max_iter=20)
    write(file, a_recording(4000), rate=rate)
    with pytest.raises(ValueError, match=r"not those of a spectrogram of .*: fit the recording"):
        export.write(result, data, tmp_path / "out", "audio")
