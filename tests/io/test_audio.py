import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
from scipy.io import wavfile

from nmfmerge.datasets.convert import spectrogram
from nmfmerge.io import ReadingWarning, read

RATE = 8000


@pytest.fixture
def tone():
    return (0.5 * np.sin(2 * np.pi * 1000 * np.arange(RATE) / RATE)).astype(np.float32)


def write(path, sound):
    if path.suffix == ".wav":
        wavfile.write(path, RATE, sound)
    else:
        soundfile.write(path, sound, RATE)
    return path


def test_wav_is_its_spectrogram(tmp_path, tone):
    data = read(write(tmp_path / "x.wav", tone))
    np.testing.assert_array_equal(data.X, spectrogram(tone, 1024, 512))
    assert data.rows.label == "frequency (Hz)"
    assert data.columns.label == "time (s)"
    np.testing.assert_array_equal(data.rows.values, np.arange(513) * RATE / 1024)
    np.testing.assert_array_equal(data.columns.values, np.arange(data.X.shape[1]) * 512 / RATE)
    assert data.rows.values[data.X.sum(axis=1).argmax()] == 1000


@pytest.mark.parametrize(
    ("options", "window", "hop"),
    [({"window": 256}, 256, 128), ({"window": 256, "hop": 100}, 256, 100), ({"hop": 64}, 1024, 64)],
)
def test_window_and_hop_are_used(tmp_path, tone, options, window, hop):
    data = read(write(tmp_path / "x.wav", tone), **options)
    np.testing.assert_array_equal(data.X, spectrogram(tone, window, hop))
    assert data.columns.values[1] == hop / RATE


def test_transpose_puts_time_in_rows(tmp_path, tone):
    data = read(write(tmp_path / "x.wav", tone), transpose=True)
    np.testing.assert_array_equal(data.X, spectrogram(tone, 1024, 512).T)
    assert data.rows.name == "time"


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.uint8])
def test_integers_of_any_size_give_the_same_sound(tmp_path, tone, dtype):
    silence = 128 if dtype == np.uint8 else 0
    scale = 128 if dtype == np.uint8 else -float(np.iinfo(dtype).min)
    samples = np.round(tone * scale + silence).astype(dtype)
    data = read(write(tmp_path / "x.wav", samples))
    assert abs(data.X - spectrogram(tone, 1024, 512)).max() < 0.01 * data.X.max()


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_channels_are_averaged_or_one_is_chosen(tmp_path, tone, suffix, refused):
    path = write(tmp_path / f"x.{suffix}", np.column_stack([tone, np.zeros_like(tone)]))
    data = read(path)
    np.testing.assert_allclose(data.X, spectrogram(tone / 2, 1024, 512), atol=0.01)
    assert "average of 2 channels" in data.description
    np.testing.assert_array_equal(read(path, channel="mean").X, data.X)
    np.testing.assert_allclose(read(path, channel=1).X, 2 * data.X, atol=0.01)
    assert not read(path, channel="2").X.any()
    refused(path, "2 channel(s) of sound: choose channel= from 1 to 2", channel=3)
    refused(path, "2 channel(s) of sound", channel="red")


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_channels_that_cancel_out_are_refused(tmp_path, tone, suffix, refused):
    path = write(tmp_path / f"x.{suffix}", np.column_stack([tone, -tone]))
    refused(path, "cancel out when they are averaged: choose one with channel=1")
    np.testing.assert_allclose(read(path, channel=2).X, spectrogram(tone, 1024, 512), atol=0.01)
    assert read(path, channel="mean").X.max() < 0.01


def test_channels_that_cancel_out_in_part_give_a_warning(tmp_path, tone):
    path = write(tmp_path / "x.wav", np.column_stack([tone, -0.5 * tone]))
    with pytest.warns(ReadingWarning, match=r"partly cancel out: 10% of their power is left"):
        data = read(path)
    np.testing.assert_array_equal(read(path, channel="mean").X, data.X)


@pytest.mark.parametrize("suffix", ["flac", "ogg"])
def test_compressed_sound_is_its_spectrogram(tmp_path, tone, suffix):
    path = write(tmp_path / f"x.{suffix}", np.column_stack([tone, tone]))
    data = read(path, window=512)
    decoded, _ = soundfile.read(path)
    np.testing.assert_array_equal(data.X, spectrogram(decoded.mean(axis=1), 512, 256))
    assert data.rows.values[data.X.sum(axis=1).argmax()] == 1000


def test_a_sound_shorter_than_the_window_is_refused(tmp_path, tone, refused):
    path = write(tmp_path / "x.wav", tone[:300])
    refused(path, "300 samples, fewer than one window of 1024")
    assert read(path, window=256).X.shape == (129, 1)


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_a_recording_cut_short_is_refused(tmp_path, tone, refused, cut, suffix, rng):
    noise = (tone + 0.1 * rng.standard_normal(len(tone))).astype(np.float32)
    refused(cut(write(tmp_path / f"x.{suffix}", noise)))


def test_without_soundfile_the_command_is_given(tmp_path, tone, needs):
    path = write(tmp_path / "x.flac", tone)
    assert needs(path, "soundfile", "soundfile", "audio").startswith("reading .flac ")


def test_a_real_recording_is_read(real):
    data = read(Path(os.environ["NMFMERGE_DATA"]) / "mary.wav", window=512)
    assert data.X.shape[0] == 257
    assert data.columns.values[-1] == pytest.approx(4.7, abs=0.1)
