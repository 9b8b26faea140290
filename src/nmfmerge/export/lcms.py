"""Spectra of LC-MS components for library search: ``spectra.msp`` and ``spectra.mgf``."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nmfmerge.export.base import Export, ExportSource
from nmfmerge.fields.lcms import LCMS, THRESHOLD, Compound, bin_width, compounds

_BASE_PEAK = 999  # intensity of the base peak in MSP files, the custom of NIST


def write_spectra(folder: Path, source: ExportSource, threshold: float = THRESHOLD) -> None:
    """Write the spectra of all components that are not zero, in both formats.

    Parameters
    ----------
    folder : Path
        Where; it exists.
    source : ExportSource
        Factors, and axes of which one is m/z.
    threshold : float
        Peaks are the bins with at least this percentage of the base peak.
    """
    found = list(compounds(source.result, source.data, threshold))
    named = [
        (_one_line(source.result.label(k)), compound)
        for k, compound in enumerate(found)
        if len(compound.mz)
    ]
    remark = _remark(source)
    for name, lines in (("spectra.msp", _msp(named, remark)), ("spectra.mgf", _mgf(named, remark))):
        text = "".join(f"{line}\n" for line in lines)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def _msp(named: list[tuple[str, Compound]], remark: str) -> Iterator[str]:
    """NIST's text format; intensities are whole numbers, 999 at the base peak."""
    for name, compound in named:
        yield f"Name: {name}"
        if _known(compound.seconds):
            yield f"RetentionTime: {compound.seconds:.9g}"
        yield f"Comment: {remark}" + "; retention time in s" * _known(compound.seconds)
        yield f"Num Peaks: {len(compound.mz)}"
        heights = np.maximum(np.rint(_BASE_PEAK * compound.relative / 100), 1)
        for mz, height in zip(compound.mz.tolist(), heights.tolist(), strict=True):
            yield f"{mz:.9g} {height:.0f}"
        yield ""


def _mgf(named: list[tuple[str, Compound]], remark: str) -> Iterator[str]:
    """Mascot generic format; intensities are those of the data, where the component peaks.

    Readers want a PEPMASS. A component has no precursor, so it is the m/z of the base peak.
    """
    yield f"# {remark}; PEPMASS is the base peak"
    for name, compound in named:
        yield "BEGIN IONS"
        yield f"TITLE={name}"
        yield f"PEPMASS={compound.base_peak:.9g}"
        if _known(compound.seconds):
            yield f"RTINSECONDS={compound.seconds:.9g}"
        for mz, height in zip(compound.mz.tolist(), compound.intensity.tolist(), strict=True):
            yield f"{mz:.9g} {height:.9g}"
        yield "END IONS"
        yield ""


def _remark(source: ExportSource) -> str:
    width = bin_width(source.data)
    bins = "" if width is None else f"; m/z are the centres of bins of {width:g} Da"
    return f"component of {_one_line(source.data.name)} found by nmfmerge{bins}"


def _known(seconds: float | None) -> bool:
    return seconds is not None and not np.isnan(seconds)


def _one_line(name: str) -> str:
    """A name without line ends, and without bytes that are no text."""
    return " ".join(name.encode("utf-8", "replace").decode("utf-8").split())


EXPORT = Export(
    "spectra",
    "spectra.msp and spectra.mgf: spectra of LC-MS components for library search",
    LCMS().suits,
    write_spectra,
)
