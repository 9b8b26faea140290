"""An LC-MS-like run: compounds with isotope patterns that elute in tailing, overlapping peaks."""

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset


def lcms_like(
    n_mz: int = 400,
    n_scans: int = 600,
    n_compounds: int = 17,
    *,
    coelution: float = 0.4,
    noise: float = 0.01,
    random_state: int = 0,
) -> Dataset:
    """Make a liquid chromatography – mass spectrometry run with known compounds.

    Parameters
    ----------
    n_mz, n_scans : int
        Number of 1-Da mass bins (rows), centred at m/z 200, 201, …, and of scans (columns).
    n_compounds : int
        Number of compounds.
    coelution : float
        Share of compounds that elute within a peak width of another.
    noise : float
        Standard deviation of the detector noise relative to the largest peak; shot noise and a
        drifting baseline grow with it.
    random_state : int
        Seed.

    Returns
    -------
    Dataset
        X scaled to a maximum of 1. W holds the spectra (columns of largest value 1), H the
        elution profiles.
    """
    if n_mz < 10 or n_scans < 20:
        raise ValueError(
            f"n_mz={n_mz}, n_scans={n_scans} are too few for peaks: use at least 10 and 20"
        )
    rng = np.random.default_rng(random_state)
    W = np.stack([_spectrum(n_mz, rng) for _ in range(n_compounds)], axis=1)
    widths = n_scans * rng.uniform(0.006, 0.015, n_compounds)
    centres = _retention_times(n_scans, n_compounds, widths, coelution, rng)
    tails = widths * rng.uniform(0.5, 2.5, n_compounds)
    scans = np.arange(n_scans)
    H = np.stack(
        [_tailing_peak(scans, *shape) for shape in zip(centres, widths, tails, strict=True)]
    )
    H *= 10 ** rng.uniform(-1, 0, n_compounds)[:, None]
    H /= (W @ H).max()
    X = _measure(W @ H, noise, rng)
    X, H = X / X.max(), H / X.max()
    return Dataset(
        name="lcms_like",
        X=X,
        n_components=n_compounds,
        rows=Axis("m/z", 200.0 + np.arange(n_mz)),
        columns=Axis("scan", scans),
        W=W,
        H=H,
        description="Generated LC-MS run with tailing peaks, co-elution and isotope patterns.",
    )


def _spectrum(n_mz: int, rng: np.random.Generator) -> np.ndarray:
    """A parent ion and a few fragments, each with the isotopes that its mass makes likely."""
    spectrum = np.zeros(n_mz)
    for strength in (1.0, *rng.uniform(0.05, 0.6, rng.integers(1, 5))):
        first = int(rng.integers(0, n_mz))
        carbons = (200 + first) / 14
        heavy = 0.011 * carbons  # expected number of carbon-13 atoms
        isotopes = heavy ** np.arange(5) / np.array([1, 1, 2, 6, 24])
        end = min(first + 5, n_mz)
        spectrum[first:end] += strength * isotopes[: end - first]
    return spectrum / spectrum.max()


def _retention_times(
    n_scans: int, n: int, widths: np.ndarray, coelution: float, rng: np.random.Generator
) -> np.ndarray:
    """Centres spread over the run; a share of them moved to within a width of an earlier one."""
    centres = np.sort(rng.uniform(0.05, 0.9, n)) * n_scans
    for i in rng.permutation(np.arange(1, n))[: round(coelution * n)]:
        centres[i] = centres[i - 1] + rng.uniform(0.5, 1.5) * widths[i - 1]
    return centres


def _tailing_peak(t: np.ndarray, centre: float, width: float, tail: float) -> np.ndarray:
    """Gaussian convolved with an exponential decay: a chromatographic peak with its tail."""
    from scipy.special import erfcx  # slow to import

    z = (width / tail - (t - centre) / width) / np.sqrt(2)
    gauss = np.exp(-0.5 * ((t - centre) / width) ** 2)
    decay = np.exp(np.minimum(0.5 * (width / tail) ** 2 - (t - centre) / tail, 50))
    peak = np.where(z > 0, gauss * erfcx(np.maximum(z, 0)), 2 * decay - gauss * erfcx(np.abs(z)))
    return np.maximum(peak, 0) / peak.max()


def _measure(clean: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Add shot noise, detector noise and a slow baseline; clip at zero."""
    m, n = clean.shape
    shot = rng.standard_normal((m, n)) * np.sqrt(np.maximum(clean, 0)) * noise
    detector = rng.standard_normal((m, n)) * (0.1 * noise)
    drift = 0.02 * noise * (1 + np.sin(np.linspace(0, 2 * np.pi, n)))
    baseline = np.outer(rng.random(m), drift)
    return np.maximum(clean + shot + detector + baseline, 0)
