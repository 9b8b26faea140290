import numpy as np
import pytest

from nmfmerge import datasets, metrics, nmf_merge


def fit_of_truth(data):
    return metrics.fitting_error(data.X, data.W, data.H)


def test_paper_example_is_the_product_of_its_integers():
    data = datasets.paper_example()
    assert data.X.shape == (8, 8)
    assert np.linalg.matrix_rank(data.X) == 4
    assert data.X[0, 0] == 6 * 6 + 4 * 3 + 9 * 4
    assert fit_of_truth(data) == 0


def test_gaussian_features_are_where_they_should_be():
    data = datasets.gaussian_features()
    assert data.X.shape == (150, 120)
    assert data.W[19, 0] == data.W.max() == 1
    assert data.W[19 + 8, 0] > 0 == data.W[19 + 9, 0]
    np.testing.assert_array_equal(np.flatnonzero(data.H[0]) + 1, np.arange(17, 27))
    np.testing.assert_array_equal(data.H.sum(axis=1), 10)
    assert datasets.gaussian_features(4).X.shape == (90, 60)


@pytest.mark.parametrize(("m", "n", "r"), [(400, 600, 17), (60, 50, 3)])
def test_lcms_run_is_its_truth_and_noise(m, n, r):
    data = datasets.lcms_like(m, n, r)
    assert data.X.shape == (m, n)
    assert data.W.shape == (m, r)
    assert data.H.shape == (r, n)
    assert data.X.min() >= 0
    assert data.X.max() == 1
    assert 0 < fit_of_truth(data) < 5
    assert fit_of_truth(datasets.lcms_like(m, n, r, noise=0)) < 1e-20


@pytest.mark.parametrize("noise", [0.01, 0.3])
def test_lcms_truth_has_the_scale_of_the_data(noise):
    data = datasets.lcms_like(noise=noise)
    clean = data.W @ data.H
    assert np.vdot(clean, data.X) / np.vdot(clean, clean) == pytest.approx(1, abs=0.05)


def test_sizes_too_small_to_mean_anything_are_refused():
    with pytest.raises(ValueError, match="n_mz=1, n_scans=1 are too few"):
        datasets.lcms_like(1, 1, 1)
    with pytest.raises(ValueError, match="at least 33 frequencies"):
        datasets.melody(9, 50)


def test_lcms_peaks_tail_and_coelute():
    data = datasets.lcms_like(noise=0)
    centre = data.H.argmax(axis=1)
    weight = np.array([h @ np.arange(600) / h.sum() for h in data.H])
    assert np.mean(weight > centre) > 0.9  # tails are late
    apart = datasets.lcms_like(noise=0, coelution=0.0).H.argmax(axis=1)
    assert np.sum(np.diff(np.sort(centre)) < 15) > np.sum(np.diff(np.sort(apart)) < 15)


def test_melody_has_a_component_per_pitch_and_amplitudes_nearly_add():
    data = datasets.melody()
    assert data.X.shape == (257, 294)
    assert data.n_components == 3
    assert fit_of_truth(data) < 1
    peaks = data.rows.values[data.W[:30].argmax(axis=0)]
    np.testing.assert_allclose(peaks, [261.6, 293.7, 329.6], atol=20)  # C, D, E
    assert datasets.melody(notes="EDCDEEE DDD EGG").n_components == 4


def test_melody_components_are_found():
    data = datasets.melody(129, 100)
    result = nmf_merge(data.X, 3)
    assert metrics.match_components(data.W, result.W)[1].min() > 0.98


@pytest.mark.parametrize("make", [datasets.lcms_like, datasets.melody])
def test_seeds_decide(make):
    first, same, other = (make(60, 50, noise=0.1, random_state=s).X for s in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_axes_fit_and_have_labels():
    data = datasets.melody(65, 40)
    assert data.rows.label == "frequency (Hz)"
    assert len(data.columns.values) == 40
    with pytest.raises(ValueError, match="axes of 'x' do not fit"):
        datasets.Dataset("x", np.ones((2, 3)), 1, data.rows, data.columns)


def test_only_images_fold():
    with pytest.raises(ValueError, match="'melody' does not consist of images"):
        datasets.melody(65, 40).picture(np.ones(65))
