import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from nmfmerge import jobs, metrics
from nmfmerge.cli import main
from nmfmerge.datasets import mutation_catalogue
from nmfmerge.jobs.mutations import extract
from nmfmerge.jobs.mutations.catalogue import catalogue, usual_limit
from nmfmerge.jobs.mutations.choice import Stability, chosen, is_stable
from nmfmerge.jobs.mutations.folder import write_activities, write_signatures
from nmfmerge.jobs.mutations.reference import decomposition
from nmfmerge.jobs.mutations.remarks import remarks
from nmfmerge.jobs.mutations.tables import signature_tables
from nmfmerge.settings import SETTINGS
from nmfmerge.solvers.history import Status
from nmfmerge.storage import folder

DATA = mutation_catalogue(4, 40, n_hypermutated=1, random_state=1)
KNOWN = pd.DataFrame(DATA.W, index=DATA.rows.values, columns=[f"true{k}" for k in range(4)])


def frame():
    return pd.DataFrame(DATA.X.astype(int), index=DATA.rows.values, columns=DATA.columns.values)


@pytest.fixture(scope="module")
def found():
    return jobs.signatures(frame(), 6, min_signatures=2, n_fits=8, reference=KNOWN)


@pytest.fixture
def counts_file(tmp_path):
    frame().rename_axis("MutationType").to_csv(tmp_path / "counts.tsv", sep="\t")
    return str(tmp_path / "counts.tsv")


def test_the_true_signatures_are_found_and_no_others(found):
    assert len(found.names) == 4
    order, cosine = metrics.match_components(DATA.W, found.signatures)
    assert cosine.min() > 0.97
    np.testing.assert_allclose(found.signatures.sum(axis=0), 1)
    true, fitted = DATA.H, found.activities.values[order]
    assert np.abs(fitted - true).sum() < 0.1 * true.sum()


def test_signatures_are_named_by_their_mutations(found):
    assert found.names == ("SBS96A", "SBS96B", "SBS96C", "SBS96D")
    totals = found.activities.values.sum(axis=1)
    assert (np.diff(totals) < 0).all()
    np.testing.assert_allclose(found.activities.values.sum(axis=0), DATA.X.sum(axis=0), rtol=1e-6)


def test_bands_surround_the_signatures(found):
    assert (found.low <= found.high).all()
    inside = (found.low <= found.signatures) & (found.signatures <= found.high)
    assert inside.mean() > 0.8
    truth = DATA.W[:, metrics.match_components(found.signatures, DATA.W)[0]]
    assert (np.abs(truth - found.signatures) < 0.02).all()


def test_they_are_matched_with_the_known_ones(found):
    assert sorted(match.known for match in found.matches) == list(KNOWN.columns)
    assert min(match.cosine for match in found.matches) > 0.97
    largest = {part.signature: part.known for part in reversed(found.parts)}
    assert largest == {match.signature: match.known for match in found.matches}
    assert "SBS96A: true" in repr(found)


def test_a_signature_with_nothing_in_common_with_known_ones_is_no_sum_of_them():
    known = catalogue(KNOWN.mul(KNOWN.index == "A[C>A]A", axis=0))
    alone = (KNOWN.index == "T[T>G]T").astype(float)[:, None]
    assert decomposition(alone, ["SBS96A"], known) == []


def test_hypermutated_samples_are_named(found):
    assert found.hypermutated == ("sample40",)
    assert "sample40. Their counts were scaled down" in " ".join(remarks(found))


def test_the_layout_of_the_table_does_not_matter(found):
    turned = frame().sample(frac=1, random_state=0).T
    again = jobs.signatures(turned, 6, min_signatures=2, n_fits=8)
    np.testing.assert_array_equal(again.signatures, found.signatures)
    np.testing.assert_array_equal(again.activities.low, found.activities.low)


def test_other_seeds_give_the_same_answer(found):
    other = jobs.signatures(frame(), 4, min_signatures=4, n_fits=8, random_state=7)
    assert metrics.match_components(found.signatures, other.signatures)[1].min() > 0.995


@pytest.mark.parametrize("how", SETTINGS["hypermutated"].takes.words)
def test_hypermutated_samples_are_capped_kept_or_dropped(how):
    counts = catalogue(DATA)
    X, above = extract._for_fits(counts, how)
    limit = usual_limit(counts.totals)
    np.testing.assert_array_equal(np.flatnonzero(above), [39])
    np.testing.assert_array_equal(X[:, :39], DATA.X[:, :39])
    assert X.shape[1] == (39 if how == "drop" else 40)
    if how != "drop":
        share = limit / DATA.X[:, 39].sum() if how == "cap" else 1
        np.testing.assert_allclose(X[:, 39], share * DATA.X[:, 39])


def test_dropped_samples_get_activities():
    found = jobs.signatures(frame(), n_signatures=4, n_fits=4, hypermutated="drop")
    assert found.consensus.at(4).H.shape == (4, 39)
    assert found.activities.values.shape == (4, 40)
    assert found.reason == "4 signatures were asked for."


@pytest.mark.parametrize(
    ("mean", "least", "stable"),
    [(0.8, 0.2, True), (0.79, 0.9, False), (0.9, 0.19, False), (0.81, 0.2, True), (1, 1, True)],
)
def test_the_rule_of_stability(mean, least, stable):
    assert is_stable(mean, least) is stable


def _stabilities(*pairs):
    return [Stability(k, mean, least, 1, 1, is_stable(mean, least))
            for k, (mean, least) in enumerate(pairs, 2)]  # fmt: skip


def test_the_highest_stable_number_is_chosen():
    run = SimpleNamespace(assess=lambda: SimpleNamespace(reason="so it is"), first_choice=9)
    rank, reason = chosen(run, _stabilities((1, 1), (0.5, 0), (0.9, 0.5), (0.6, 0.1)), "stability")
    assert (rank, reason) == (4, "The highest stable number of signatures is 4.")
    rank, reason = chosen(run, _stabilities((0.7, 0.1), (0.7, 0.2)), "stability")
    assert (rank, reason.split(";")[0]) == (3, "No number of signatures is stable")
    assert chosen(run, _stabilities((1, 1)), "assessment") == (9, "so it is")


def test_names_go_on_after_the_alphabet():
    assert [extract.letters(i) for i in (0, 25, 26, 51, 52)] == ["A", "Z", "AA", "AZ", "BA"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_signatures": 0}, "max_signatures=0"),
        ({"min_signatures": 7, "max_signatures": 5}, "min_signatures=7 is too high; expected at"),
        ({"n_signatures": 41}, "n_signatures=41 is too high; expected at most 40"),
        ({"hypermutated": "leave"}, "hypermutated='leave' is not known; expected one of 'cap'"),
        ({"choose": "best"}, "choose='best'"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        jobs.signatures(frame(), **options)


def test_tables_have_the_layout_of_the_field(found, tmp_path):
    for name, text in signature_tables(found).items():
        (tmp_path / name).write_text(text)
    read = {file.stem: pd.read_csv(file, sep="\t", index_col=0) for file in tmp_path.iterdir()}
    assert read["signatures"].index.name == "MutationType"
    assert tuple(read["signatures"].index) == found.catalogue.kind.types
    np.testing.assert_allclose(read["signatures"], found.signatures, rtol=1e-8)
    assert read["activities"].index.name == "Samples"
    np.testing.assert_allclose(read["activities"].T, found.activities.values, rtol=1e-8)
    assert (read["activities-low"] <= read["activities-high"]).all(axis=None)
    assert list(read["stability"].index) == [2, 3, 4, 5, 6]
    assert read["stability"]["Chosen"].to_dict()[4] == "yes"
    assert list(read["samples"].query("Hypermutated == 'yes'").index) == ["sample40"]
    assert set(read["matches"]["Known signature"]) == set(KNOWN.columns)
    catalogue(read["signatures"])  # it can be a reference in turn


def test_the_folder_is_a_fit_with_a_report(found, tmp_path):
    write_signatures(tmp_path / "out", found)
    fit = folder.read(tmp_path / "out")
    error = metrics.fitting_error(DATA.X, fit.result.W, fit.result.H, beta_loss="kullback-leibler")
    assert fit.result.fitting_error == pytest.approx(error)
    assert fit.result.stages[-1].fitting_error == fit.result.fitting_error
    assert not list((tmp_path / "out" / "figures").glob("convergence*"))  # no iterations to show
    assert fit.result.names == found.names
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert '<h2 id="signatures-title">Signatures</h2>' in page
    assert "Beside the known signatures" in page
    assert (tmp_path / "out" / "signatures.pdf").read_bytes().startswith(b"%PDF")


def test_activities_of_known_signatures_are_a_folder_too(tmp_path):
    table = KNOWN.assign(unused=np.eye(96)[0])
    write_activities(tmp_path / "out", jobs.refit(DATA, table, n_resamples=5))
    written = pd.read_csv(tmp_path / "out" / "activities.tsv", sep="\t", index_col=0)
    assert not written["unused"].any()
    assert folder.read(tmp_path / "out").result.names == tuple(KNOWN.columns)
    assert "4 known signatures" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_the_command_finds_signatures(counts_file, tmp_path, capsys):
    out = str(tmp_path / "out")
    words = ["--max", "5", "--min", "3", "--fits", "6", "--no-report", "--resamples", "5"]
    assert main(["signatures", counts_file, *words, "-o", out, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["n_signatures"] == 4
    assert said["hypermutated"] == ["sample40"]
    assert [one["signatures"] for one in said["stability"]] == [3, 4, 5]
    again = folder.read(tmp_path / "out").about.command
    assert again.endswith("--max 5 --min 3 --fits 6 --resamples 5")
    assert main(["signatures", counts_file, *words, "-o", out]) == 1
    assert "already exists" in capsys.readouterr().err


def test_the_command_fits_known_signatures(counts_file, tmp_path, capsys):
    KNOWN.to_csv(tmp_path / "known.csv")
    words = ["--refit", str(tmp_path / "known.csv"), "-o", str(tmp_path / "out"), "--no-report"]
    assert main(["signatures", counts_file, *words, "--resamples", "5"]) == 0
    assert "4 signatures in 40 samples" in capsys.readouterr().out
    assert main(["signatures", counts_file, *words, "--reference", counts_file, "--force"]) == 1
    assert "leave out --reference" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max", "0"], "--max 0 is out of range"),
        (["--min", "3", "--max", "2"], "--min 3 is too high; expected at most 2"),
        (["--resamples", "-1"], "--resamples -1 is out of range"),
        (["-r", "50"], "--rank 50 is too high"),
        (["--reference", "other.csv"], "--reference has neither rows nor columns with names"),
        (["--refit", "other.csv"], "--refit has neither rows nor columns with names"),
        (["--refit", "other.csv", "--max", "4", "--plain"], "leave out --max, --plain"),
        (["--all-signatures"], "--all-signatures has no effect without --refit"),
        (["--refit", "other.csv", "--resume"], "leave out --resume"),
    ],
)
def test_messages_of_the_command_name_its_options(
    counts_file, tmp_path, capsys, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.csv").write_text("1,2\n3,4\n", encoding="utf-8")
    assert main(["signatures", counts_file, *words, "-o", "out"]) == 1
    assert message in capsys.readouterr().err


def test_an_interrupted_command_says_how_to_continue(counts_file, tmp_path, capsys, monkeypatch):
    def stop(progress):
        if progress.n_done == 6:
            raise KeyboardInterrupt

    def interrupted(*given, callback, **options):
        return jobs.signatures(*given, callback=stop, **options)

    out = tmp_path / "out"
    words = ["signatures", counts_file, "--min", "3", "--max", "4", "--fits", "8", "--no-report"]
    words += ["--resamples", "2", "-o", str(out)]
    with monkeypatch.context() as patch:
        patch.setattr("nmfmerge.cli.signatures.signatures", interrupted)
        assert main(words) == 130
    assert "continue with the same command and --resume" in capsys.readouterr().err
    assert main(words) == 1
    assert "continue it with --resume" in capsys.readouterr().err
    assert main([*words, "--seed", "5", "--resume"]) == 1
    assert "holds the run of another command (--seed 0, now 5)" in capsys.readouterr().err
    assert main([*words, "--resume"]) == 0
    assert not out.with_name("out.unfinished").exists()
    undisturbed = tmp_path / "undisturbed"
    assert main([*words[:-1], str(undisturbed)]) == 0
    assert (out / "signatures.tsv").read_bytes() == (undisturbed / "signatures.tsv").read_bytes()


def test_ctrl_c_keeps_the_signatures_of_the_finished_fits(
    counts_file, tmp_path, capsys, monkeypatch
):
    def stop(progress):
        if progress.n_done == 6:
            raise KeyboardInterrupt

    with pytest.raises(extract.SignaturesInterrupted) as interrupted:
        jobs.signatures(frame(), 4, min_signatures=3, n_fits=8, callback=stop, n_resamples=5)
    kept = interrupted.value.signatures
    assert kept.consensus.status is Status.INTERRUPTED
    assert [at.n_fits for at in kept.consensus.results] == [3, 3]
    np.testing.assert_allclose(kept.signatures.sum(axis=0), 1)

    def interrupt(*_, **__):
        raise interrupted.value

    monkeypatch.setattr("nmfmerge.cli.signatures.signatures", interrupt)
    out = tmp_path / "out"
    assert main(["signatures", counts_file, "--no-report", "-o", str(out)]) == 130
    assert f"the signatures of the finished fits are written to {out}" in capsys.readouterr().err
    written = pd.read_csv(out / "signatures.tsv", sep="\t", index_col=0)
    np.testing.assert_allclose(written.to_numpy(), kept.signatures, rtol=1e-5)


def test_the_command_names_a_file_that_is_no_table_of_mutations(tmp_path, capsys):
    (tmp_path / "other.csv").write_text("1,2\n3,4\n", encoding="utf-8")
    assert main(["signatures", str(tmp_path / "other.csv"), "-o", str(tmp_path / "out")]) == 1
    assert "nmfmerge: the file has neither rows nor columns" in capsys.readouterr().err
