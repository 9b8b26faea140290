"""The pages on sound and LC-MS: their Python and their commands run as they stand."""

import re
import shlex
from pathlib import Path

import pytest

from nmfmerge.cli import main

FIELDS = Path(__file__).parents[2] / "docs" / "fields"
FENCE = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["audio.md", "lcms.md"])
def test_no_line_of_code_is_cut_off(page):
    for _, snippet in FENCE.findall((FIELDS / page).read_text(encoding="utf-8")):
        assert max(map(len, snippet.splitlines())) <= 88  # what the page shows at 1280 pixels


@pytest.mark.parametrize(
    ("page", "written"),
    [("audio.md", ["song.wav.nmf/audio/component-03.wav", "stems/audio/component-01.wav"]),
     ("lcms.md", ["run.cdf.nmf/spectra.msp", "compounds/spectra.mgf", "run.cdf.path/path.csv"])],
)  # fmt: skip
def test_everything_runs_in_order(page, written, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (FIELDS / page).read_text(encoding="utf-8")
    text = text[text.index("## To try it") :]  # before, a file of the reader is named
    namespace = {}
    for kind, snippet in FENCE.findall(text):
        if kind == "python":
            exec(compile(snippet, page, "exec"), namespace)
        else:
            for line in snippet.splitlines():
                assert main(shlex.split(line)[1:]) == 0, line
    for name in written:
        assert (tmp_path / name).exists()
    said = capsys.readouterr().out
    if page == "audio.md":
        assert float(re.search(r"largest difference: (\S+)", said)[1]) < 1e-6
        assert {float(hz) for hz in re.findall(r"loudest at (\d+) Hz", said)} == {258, 323, 388}
    else:
        assert {"180.25", "260.25", "342.25"} <= set(re.findall(r"\d+\.\d5", said))
