"""Data belong to fields by the names of their axes."""

import re
from pathlib import Path

import numpy as np
import pytest

import nmfmerge
from nmfmerge.datasets import Axis, Dataset, lcms_like, melody
from nmfmerge.fields.registry import FIELDS, draws_sticks, fields_of, is_logarithmic


def data_of(rows, columns, **more):
    return Dataset("x", None, None, rows, columns, **more)


def names_of(data):
    return [name for name, field in FIELDS.items() if field in fields_of(data)]


NUMBERS, WORDS = np.arange(6.0), np.array(list("abcdef"))


@pytest.mark.parametrize(
    ("rows", "columns", "fields"),
    [
        (Axis("m/z", NUMBERS), Axis("retention time", NUMBERS, "s"), ["lcms"]),
        (Axis("sample", WORDS), Axis("m/z", NUMBERS), ["lcms", "names"]),
        (Axis("m/z", WORDS), Axis("scan", NUMBERS), ["names"]),  # names are no masses
        (Axis("frequency", NUMBERS, "Hz"), Axis("time", NUMBERS, "s"), ["audio"]),
        (Axis("pixel", NUMBERS), Axis("frame", NUMBERS), ["images"]),
        (Axis("band", NUMBERS), Axis("pixel", NUMBERS), ["images", "spectra"]),
        (Axis("cell", WORDS), Axis("gene", WORDS), ["names"]),
        (Axis("row", NUMBERS), Axis("column", NUMBERS), []),
    ],
)
def test_data_belong_to_fields_whichever_side_is_in_rows(rows, columns, fields):
    assert names_of(data_of(rows, columns)) == fields
    assert names_of(data_of(columns, rows)) == fields


def test_only_mass_spectra_are_sticks_and_only_frequencies_are_logarithmic():
    axes = [
        lcms_like(20, 30, 3).rows,
        lcms_like(20, 30, 3).columns,
        melody().rows,
        melody().columns,
    ]
    assert [draws_sticks(axis) for axis in axes] == [True, False, False, False]
    assert [is_logarithmic(axis) for axis in axes] == [False, False, True, False]
    assert not is_logarithmic(Axis("frequency", np.array([0.0, -1.0, 5.0])))  # one place only
    assert not is_logarithmic(Axis("frequency", WORDS))


def test_no_other_part_of_the_package_knows_the_axes_of_lcms():
    source = Path(nmfmerge.__file__).parent
    know = {
        path.relative_to(source).parts[0]
        for path in source.rglob("*.py")
        if re.search(r'"(m/z|retention time)"', path.read_text(encoding="utf-8"))
    }
    assert know == {"fields", "io", "datasets"}  # a reader names the axes of what it reads
