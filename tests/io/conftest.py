import importlib

import numpy as np
import pytest

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.io import FormatError, MissingLibrary, read
from nmfmerge.io.errors import TooLarge


@pytest.fixture
def X(rng):
    return rng.integers(0, 50, (5, 4)).astype(np.float64)


@pytest.fixture
def refused():
    """Asserts that a file is refused in one line that names it; returns the line."""

    def check(path, *words, **options):
        with pytest.raises((FormatError, ArgumentError)) as caught:
            read(path, **options)
        message = str(caught.value)
        assert type(caught.value) in (FormatError, TooLarge, ArgumentError)
        assert str(path) in message
        assert "\n" not in message
        for word in words:
            assert word in message
        return message

    return check


@pytest.fixture
def needs(monkeypatch):
    """Asserts that without a library the command that installs it is the message."""

    def check(path, module, package, extra):
        real = importlib.import_module

        def import_module(name, *rest):
            if name.split(".")[0] == module:
                raise ImportError(f"No module named {name!r}")
            return real(name, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(importlib, "import_module", import_module)
            with pytest.raises(MissingLibrary) as caught:
                read(path)
        message = str(caught.value)
        assert f'needs {package}: pip install "nmfmerge[{extra}]"' in message
        assert message.startswith("reading ")
        return message

    return check


@pytest.fixture
def cut():
    """Keeps only the first part of a file."""

    def shorten(path, part=0.6):
        whole = path.read_bytes()
        path.write_bytes(whole[: int(part * len(whole))])
        return path

    return shorten
