"""Spectrograms of sound: frequencies in Hz and times in seconds."""

from nmfmerge.datasets.base import Dataset
from nmfmerge.fields.base import Field


class Audio(Field):
    """Sound: pitches are equally far apart on a logarithmic scale of frequencies."""

    logarithmic = ("frequency",)

    def suits(self, data: Dataset) -> bool:
        """True for the spectrogram of a recording."""
        axes = {(axis.name, axis.unit) for axis in (data.rows, data.columns)}
        return axes == {("frequency", "Hz"), ("time", "s")}
