"""Prose and messages use plain words: marker words of an older, stilted style are not used again.

A hit is a sentence to rewrite as one would say it aloud, not a word to replace.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROSE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "benchmarks", "reproduce", "src")
MARKERS = re.compile(
    r"\b(?:told|dear|nobody|somebody|anew|beforehand|as it is|what there is|(?:comes?|came) to"
    r"|gone through|carried through)\b"
    r'|"""(?:What|Whether)\b',
    re.IGNORECASE,
)
SUFFIXES = {".md", ".py", ".rst", ".js", ".css", ".html"}


def _files(name):
    path = ROOT / name
    files = [path] if path.is_file() else path.rglob("*")
    built = {"_build", "auto_examples", "output", "__pycache__"}
    return sorted(
        file for file in files
        if file.suffix in SUFFIXES and not built & set(file.relative_to(ROOT).parts)
    )  # fmt: skip


@pytest.mark.parametrize("name", PROSE)
def test_prose_has_no_marker_words(name):
    files = _files(name)
    assert files
    hits = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if MARKERS.search(line)
    ]
    assert not hits, "rewrite these in plain words:\n" + "\n".join(hits)


@pytest.mark.parametrize(
    "line", ["joining two of them is dear", '    """Whether X is dense."""', "It comes to 3 %."]
)
def test_a_marker_word_is_found(line):
    assert MARKERS.search(line)


@pytest.mark.parametrize("line", ["True if X is dense", "dearth", "what it holds"])
def test_other_words_are_not(line):
    assert not MARKERS.search(line)
