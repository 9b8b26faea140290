"""`nmfmerge consensus`: what many fits agree on, in a folder that other commands read."""

import csv
import json

import numpy as np
import pytest

from nmfmerge import consensus
from nmfmerge.cli import consensus as consensus_command
from nmfmerge.storage import folder

GIVEN = ("--ranks", "3-6", "--fits", 4, "--tol", 0.01)


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    means = rng.gamma(0.5, 900.0, (24, 4)) @ rng.gamma(0.3, 1.0, (4, 30))
    return rng.poisson(means).astype(float)


def same(X, **given):
    return consensus(X, "3-6", n_fits=4, tol=0.01, **given)


def test_it_writes_the_consensus_of_the_assessed_rank(command, file, X, tmp_path, drawn):
    out = tmp_path / "out"
    code, text, err = command("consensus", file, *GIVEN, "--resample", "poisson", "-o", out)
    assert (code, err) == (0, "")
    expected = same(X, resample="poisson")
    assert str(expected.assess()) in text
    fit = folder.read(out)
    assert fit.result.n_components == expected.first_choice
    assert np.array_equal(fit.result.H, expected[fit.result.n_components].H)
    assert fit.consensus.ranks == (3, 4, 5, 6)
    assert fit.about.settings["resample"] == "poisson"
    page = (out / "report.html").read_text("utf-8")
    assert "Many fits" in page
    assert str(expected.assess()).split(":")[0] in page
    assert "of Poisson counts drawn around the data" in page
    assert {"consensus.png", "clustergram.png"} <= {f.name for f in (out / "figures").iterdir()}
    assert command("report", out)[0] == 0
    assert "of Poisson counts drawn around the data" in (out / "report.html").read_text("utf-8")


def test_a_consensus_comes_back_from_its_folder(command, file, X, tmp_path):
    out = tmp_path / "out"
    command("consensus", file, *GIVEN, "-r", 5, "--no-report", "-o", out, "--loss", "kl", "--merge")
    found, expected = folder.read(out).consensus, same(X, beta_loss="kl", merge=True)
    assert found.merge
    assert repr(found).splitlines()[1:] == repr(expected).splitlines()[1:]
    for rank in expected:
        for name in ("W", "H", "low", "high", "silhouettes", "labels", "cosines", "errors"):
            assert np.array_equal(getattr(found[rank], name), getattr(expected[rank], name))
    assert found.assess() == expected.assess()
    assert np.array_equal(found[5].components, expected[5].components)
    assert found[4].components is None
    assert not (out / "report.html").exists()


def test_tables_have_the_ranks_the_agreement_and_the_bands(command, file, X, tmp_path):
    out = tmp_path / "out"
    command("consensus", file, *GIVEN, "-r", 4, "--no-report", "-o", out)
    at = same(X)[4]

    def lines(name):
        return list(csv.reader((out / f"{name}.csv").read_text().splitlines()))

    assert [line[0] for line in lines("consensus")] == ["rank", "3", "4", "5", "6"]
    agreement = np.array(lines("agreement"))
    np.testing.assert_allclose(agreement[1:, 2].astype(float), at.silhouettes, rtol=1e-8)
    bands = np.array(lines("H-bands"))
    assert bands[0, 1:3].tolist() == ["component 1, 5 %", "component 1, 95 %"]
    np.testing.assert_allclose(bands[1:, 2].astype(float), at.high[0], rtol=1e-8)
    (out / "agreement.csv").unlink()
    assert command("export", out)[0] == 0
    assert np.array_equal(np.array(lines("agreement")), agreement)


def test_json_for_scripts(command, file, tmp_path):
    code, text, _ = command(
        "consensus", file, *GIVEN, "--json", "--no-report", "-o", tmp_path / "o"
    )
    said = json.loads(text)
    assert code == 0
    assert [row["rank"] for row in said["ranks"]] == [3, 4, 5, 6]
    assert said["rank"] in (3, 4, 5, 6)


def test_a_rank_that_is_not_fitted_is_refused(command, file):
    code, _, err = command("consensus", file, "--ranks", "3-6", "-r", 9)
    assert code == 1
    assert "--rank 9 is not among --ranks 3-6" in err
    code, _, err = command("consensus", file, "--ranks", "many")
    assert "--ranks 'many' is not known" in err


def test_ctrl_c_writes_what_was_finished_and_resume_the_rest(
    command, file, X, tmp_path, monkeypatch
):
    def stop(progress):
        if progress.n_done == 9:
            raise KeyboardInterrupt

    def interrupted(*given, callback, **options):
        return consensus(*given, callback=stop, **options)

    out = tmp_path / "out"
    words = ("consensus", file, *GIVEN, "--no-report", "-o", out)
    with monkeypatch.context() as patch:
        patch.setattr(consensus_command, "consensus", interrupted)
        code, _, err = command(*words)
    assert code == 130
    assert f"the consensus of the finished fits is written to {out}" in err
    assert "continue with the same command and --resume" in err
    assert folder.read(out).consensus[3].n_fits < 4
    code, _, err = command(*words)
    assert (code, "continue it with --resume" in err) == (1, True)
    code, _, err = command(*words, "--merge", "--resume")
    assert (code, "(--merge False, now True)" in err) == (1, True)
    assert command(*words, "--resume")[0] == 0
    found, expected = folder.read(out).consensus, same(X)
    for rank in expected:
        assert np.array_equal(found[rank].H, expected[rank].H)
    assert not out.with_name("out.unfinished").exists()
