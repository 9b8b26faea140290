import pytest

from nmfmerge.io import FORMATS, read
from nmfmerge.io.registry import find_format
from tests.fuzz.readers import OPTIONS, fuzz, write_seeds

CASES = 150

pytestmark = pytest.mark.filterwarnings(  # psims leaves its vocabulary open
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    return [folder / name for name in write_seeds(folder)]


def test_every_format_has_a_seed_that_can_be_read(seeds):
    assert {find_format(path).name for path in seeds} == set(FORMATS)
    for path in seeds:
        assert read(path, **OPTIONS.get(path.name, {})).X.size


def test_damaged_files_are_read_or_refused(capsys):
    assert fuzz(CASES, seed=0, jobs=1) == []
    assert f"{CASES} cases" in capsys.readouterr().out
