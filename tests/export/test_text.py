"""From scikit-learn's words to the table of topics, through files as users have them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite, savemat
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from nmfmerge import NMFMerge, metrics

TOPICS = [
    ["tea", "milk", "cup", "sugar"],
    ["train", "ticket", "station", "track"],
    ["rain", "wind", "snow", "cloud"],
]


@pytest.fixture
def texts(rng):
    """Each text is about one topic, and all of them say "thing" often."""
    return [
        " ".join([*rng.choice(TOPICS[i % 3], 12), *["thing"] * 20, TOPICS[i // 4 % 3][i % 4]])
        for i in range(60)
    ]


@pytest.fixture
def words_and_counts(texts):
    vectorizer = TfidfVectorizer()
    return vectorizer.fit_transform(texts), vectorizer.get_feature_names_out().tolist()


@pytest.mark.parametrize("suffix", ["mtx", "mat", "npz", "csv"])
def test_words_of_topics_come_out_of_every_kind_of_file(
    tmp_path,
    command,
    words_and_counts,
    suffix,
):
    X, words = words_and_counts
    names = [f"text {i}" for i in range(X.shape[0])]
    path, options = tmp_path / f"talk.{suffix}", []
    if suffix == "csv":
        entries = X.tocoo()
        pd.DataFrame(
            {
                "document": [names[i] for i in entries.row],
                "word": [words[j] for j in entries.col],
                "tfidf": entries.data,
            }
        ).to_csv(path, index=False)
        options = ["--triplets"]
    else:
        (tmp_path / "vocabulary.txt").write_text("\n".join(words))
        (tmp_path / "documents.txt").write_text("\n".join(names) + "\n")
        write = {"mtx": mmwrite, "npz": sp.save_npz, "mat": lambda p, X: savemat(p, {"X": X})}
        write[suffix](path, X)
    out = tmp_path / "out"
    code, _, err = command("fit", path, "-r", 3, "--no-report", "-o", out, *options)
    assert (code, err) == (0, "")
    top = pd.read_csv(out / "top-words.csv")
    found = {frozenset(part["word"][:4]) for _, part in top.groupby("component")}
    assert found == {frozenset(topic) for topic in TOPICS}
    W, H = (np.load(out / "factors.npz")[name] for name in "WH")
    heaviest = top.loc[top.groupby("component")["weight"].idxmax(), "word"]
    assert (heaviest == "thing").sum() >= 2  # which weight alone would put first
    documents = pd.read_csv(out / "top-documents.csv")
    for k, part in documents.groupby("component"):
        topics = {int(name.split()[1]) % 3 for name in part["document"][:10]}
        assert len(topics) == 1
        place = names.index(part["document"].iloc[0])
        assert part["weight"].iloc[0] == pytest.approx(W[place, k - 1], rel=1e-8)
    assert H.shape == (3, len(words))


def test_topics_in_a_pipeline_name_their_words(texts):
    topics = make_pipeline(TfidfVectorizer(), NMFMerge(n_components=3)).fit(texts)
    words = topics[0].get_feature_names_out()
    scores = metrics.specificity(topics[-1].components_.T)
    found = {frozenset(words[np.argsort(-score)[:4]]) for score in scores.T}
    assert found == {frozenset(topic) for topic in TOPICS}
    assert topics.get_feature_names_out().tolist() == ["nmfmerge0", "nmfmerge1", "nmfmerge2"]


def test_info_tells_which_names_were_found(tmp_path, command, words_and_counts):
    X, words = words_and_counts
    mmwrite(tmp_path / "talk.mtx", X)
    (tmp_path / "vocabulary.txt").write_text("\n".join(words))
    code, out, err = command("info", tmp_path / "talk.mtx")
    assert (code, err) == (0, "")
    assert "names of the columns from vocabulary.txt" in out
    (tmp_path / "vocabulary.txt").write_text("\n".join(words[1:]))
    code, out, err = command("info", tmp_path / "talk.mtx")
    assert code == 0
    assert err.count("\n") == 1
    assert "vocabulary.txt was left out: it has 12 names and" in err


def test_messages_name_options_of_the_command_line(tmp_path, command, rng, monkeypatch):
    X = rng.random((6, 6))
    X[2] = 0
    np.save(tmp_path / "x.npy", X)
    monkeypatch.chdir(tmp_path)
    _, _, err = command("info", "x.npy", "--image-shape", "2,3")
    assert "--image-shape '2,3' fits both" in err
    assert "--rows 'pixel' or --columns 'pixel'" in err
    _, _, err = command("info", "x.npy", "--image-shape", "2")
    assert "--image-shape '2' is not an image size" in err
    _, out, _ = command("info", "x.npy")
    assert "1 row is all zero and carry no information: leave them out with --drop-zero-rows" in out
    _, out, _ = command("info", "x.npy", "--drop-zero-rows")
    assert "1 of 6 rows that are all zero were dropped" in out
    np.save(tmp_path / "cube.npy", rng.random((2, 3, 4)))
    _, _, err = command("info", "cube.npy")
    assert "with --pixel-axes '0,1'" in err


def test_names_are_found_again_from_another_folder(tmp_path, command, rng, monkeypatch):
    """A fit keeps where its names were, and `merge` reads the data again from anywhere."""
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "x.npy", rng.random((12, 9)))
    (tmp_path / "data" / "names.txt").write_text("".join(f"n{i}\n" for i in range(12)))
    monkeypatch.chdir(tmp_path / "data")
    code, _, err = command("fit", "x.npy", "-r", 3, "--row-names", "names.txt", "--no-report")
    assert (code, err) == (0, "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nmfmerge.cli.common.pages", lambda fit, bar=None: {})
    code, _, err = command("merge", "data/x.npy.nmf", "-r", 2, "-o", "two")
    assert (code, err) == (0, "")
    assert set(pd.read_csv("two/top-rows.csv")["row"]) <= {f"n{i}" for i in range(12)}
