"""What is known of a fit goes through JSON, and records of other versions are read."""

import json
from dataclasses import FrozenInstanceError

import pytest

from nmfmerge.results.about import About

KNOWN = About(
    title="Run 1", file="run.csv", command="nmfmerge fit run.csv", date="2026-01-01",
    data_sha256="ab", shape=[3, 4], settings={"n_components": 3}, reading={"bin_width": 0.1},
    versions={"numpy": "2"}, notes=["A sentence."], streamed={"memory": "2GB"},
    standard={"fitting_error": 1.5}, around={"ranks": [1]}, compare={"standard_errors": [1.0]},
)  # fmt: skip


def test_what_is_known_comes_back_from_json():
    again = About.of(json.loads(json.dumps(KNOWN.as_record())))
    assert vars(again) == vars(KNOWN)
    assert About().as_record() == {}


def test_other_entries_of_a_record_are_left_out():
    record = {"title": None, "file": "run.csv", "result": {}, "path": None, "of_the_future": 1}
    assert About.of(record).as_record() == {"file": "run.csv"}
    assert vars(About.of(None)) == vars(About())
    assert About.of(KNOWN) is KNOWN


def test_a_fit_derived_from_another_has_no_comparisons():
    derived = KNOWN.without_measured()
    assert set(KNOWN.measured()) == {"standard", "around", "compare"}
    assert derived.measured() == {}
    assert derived.updated(**KNOWN.measured()).as_record() == KNOWN.as_record()


def test_it_is_frozen():
    with pytest.raises(FrozenInstanceError):
        KNOWN.title = "Run 2"
