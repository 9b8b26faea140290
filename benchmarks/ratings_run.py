"""Ratings fitted by scikit-surprise and nimfa, in an environment of their own: rows as JSON.

``python ratings_run.py ratings.npz RANK`` with a Python that has them; one that is not installed,
or does not run, is named in its row.
"""

import json
import sys
import time
import warnings

import numpy as np


def main(file, rank):
    """Fit with each, and print seconds and the error at the held-out ratings."""
    warnings.simplefilter("ignore")
    data, rows = np.load(file), []
    for name, missing, fit in (
        ("scikit-surprise NMF", "missing", lambda *given: _surprise("NMF", *given)),
        ("scikit-surprise SVD", "missing", lambda *given: _surprise("SVD", *given)),
        ("nimfa Lsnmf", "zero", _nimfa),
    ):
        row = {"who": name, "not rated is": missing, "held-out RMSE": None, "seconds": None}
        try:
            seconds, predicted, version = fit(data, int(rank))
            error = float(np.sqrt(np.mean((data["test_stars"] - predicted) ** 2)))
            row |= {"who": f"{name} {version}", "held-out RMSE": error, "seconds": seconds}
        except Exception as error:  # it is old, and another NumPy may be too new for it
            row["who"] = f"{name} ({type(error).__name__}: {error})"
        rows.append(row)
    print("\n" + json.dumps(rows))


def _surprise(algorithm, data, rank):
    """Its NMF or SVD with its default number of epochs; predictions are not clipped."""
    import pandas as pd
    import surprise

    frame = pd.DataFrame({name: data[name] for name in ("rows", "columns", "stars")})
    known = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=(1, 5)))
    training = known.build_full_trainset()
    model = getattr(surprise, algorithm)(n_factors=rank, random_state=0)
    began = time.perf_counter()
    model.fit(training)
    seconds = time.perf_counter() - began
    places = zip(data["test_rows"].tolist(), data["test_columns"].tolist(), strict=True)
    predicted = np.array([model.predict(*place, clip=False).est for place in places])
    return seconds, predicted, surprise.__version__


def _nimfa(data, rank):
    """Its NMF by projected gradients, which has no missing values."""
    from importlib.metadata import version

    import nimfa

    X = np.zeros(data["shape"])
    X[data["rows"], data["columns"]] = data["stars"]
    began = time.perf_counter()
    fit = nimfa.Lsnmf(X, rank=rank, seed="random_vcol", max_iter=30)().fit
    seconds = time.perf_counter() - began
    W, H = np.asarray(fit.basis()), np.asarray(fit.coef())
    at = data["test_rows"], data["test_columns"]
    return seconds, np.einsum("ek,ke->e", W[at[0]], H[:, at[1]]), version("nimfa")


if __name__ == "__main__":
    main(*sys.argv[1:])
