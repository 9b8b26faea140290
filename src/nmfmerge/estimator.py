"""`NMFMerge`: the pipeline as a scikit-learn transformer."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import _check_n_features, check_is_fitted, validate_data

from nmfmerge import metrics, settings
from nmfmerge.api import Callback, Hold, Init, RandomState, nmf_merge, transform
from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.backends.numba import at_most
from nmfmerge.inputs import check, lazy, refusals, tensors
from nmfmerge.inputs.arrays import without_holes
from nmfmerge.inputs.conversion import refuse
from nmfmerge.inputs.labels import matrix_of, part_of
from nmfmerge.losses import LOSSES, WEIGHTED_SQUARES, Loss, Penalty, Problem
from nmfmerge.matrices import DataMatrix
from nmfmerge.matrices.offers import Need
from nmfmerge.method.stop import Interrupted
from nmfmerge.results.factorization import Factorization
from nmfmerge.results.notebook import estimator_html
from nmfmerge.solvers import solver_of, solvers_of

_PART = ("layer", "mask_var")  # which part of an AnnData is X


class NMFMerge(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Nonnegative matrix factorization by NMF-Merge, for scikit-learn.

    Takes the place of `sklearn.decomposition.NMF`. `transform` solves the problem of each row to
    convergence, so ``fit_transform(X)`` and ``fit(X).transform(X)`` give the same.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    layer : str, optional
        Layer of an AnnData to take instead of its X; "raw" for .raw.
    mask_var : str, optional
        Column of ``var`` of an AnnData that marks the genes to take, such as "highly_variable".
    n_extra : int, optional
        Number of extra components; default a fifth of ``n_components``, 0 is plain NMF.
    solver : {"accelerated", "hals", "gcd", "alspgrad", "mu"}
        Algorithm; for the Kullback–Leibler divergence "accelerated" or "mu".
    beta_loss : {"frobenius", "kullback-leibler"}
        What is minimised; see `nmfmerge.nmf`.
    missing : {"nan", "zeros"}
        Which entries of X are missing: NaN, or also those that a sparse X does not store.
    init : {"nndsvd", "nndsvda", "nndsvdar", "random"}, (W0, H0) or a list of these
        Start of the initial stage; a list has one entry for each start and replaces ``n_init``.
    n_init : int, default=4
        Number of starts: ``init`` and random ones; the best is kept. Of several, a first
        start by NNDSVD is standard NMF and the others are NMF-Merge. 1 is the method of the
        paper.
    alpha_W, alpha_H : float
        Weights of penalties on W and H, as in scikit-learn's ``NMF``: the objective gains
        alpha_W·n·(l1_ratio·ΣW + ½(1 − l1_ratio)‖W‖²), and the same for H with alpha_H·m.
        ``alpha_H="same"`` is alpha_W. L1 makes factors sparse. A penalty on one factor alone only
        moves scale to the other one, unless that is held.
    l1_ratio : float
        Share of L1 in the penalties, from 0 to 1; the rest is L2.
    hold : indices, optional
        Rows of H0, the first ones of ``init=(W0, H0)``, that do not change: known components,
        whose weights are fitted together with the unknown components.
    tol : float
        Stop when no component moves by more than this, relatively.
    tol_intermediate : float, optional
        Tolerance of the initial and over-complete stages; default √tol, or a tenth of it for the
        Kullback–Leibler divergence.
    max_iter : int
        Maximum number of iterations of each stage.
    max_time : float, optional
        Maximum time in seconds.
    random_state : int, Generator, RandomState or None
        Seed of the random starts; None is a fixed seed.
    callback : callable, optional
        Called after each iteration; see `nmfmerge.nmf`.
    n_jobs : int, optional
        Most threads of `fit`, `transform` and `score`; None and -1 are as many as the machine
        allows; see `nmfmerge.nmf`. The result does not depend on it, to the bit.
    device : str or torch.device, optional
        Device of the computation, such as "cuda"; needs PyTorch. X may also be a PyTorch tensor:
        the fit then runs on its device and returns tensors.
    tf32 : bool
        Allow TF32 in products with a float32 X on a GPU; see `nmfmerge.nmf`.
    verbose : int
        1 shows a progress bar in a terminal or a notebook, and elsewhere a line after each stage;
        2 prints these lines, and one every 100 iterations.

    Attributes
    ----------
    components_ : array (n_components, n_features)
        H.
    n_components_ : int
        Number of components.
    reconstruction_err_ : float
        ‖X − WH‖ of the training data, or √(2·D) of their divergence D, as in scikit-learn.
    n_iter_ : int
        Iterations of all stages together, from the best start.
    stages_ : tuple of Stage
        The record of each stage.
    merges_ : MergeTree or None
        The merges of the merge stage.
    starts_ : tuple of Start
        The result of each of several starts; empty if there was one.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : array (n_features,)
        Their names, if X had any.

    Examples
    --------
    >>> from nmfmerge import NMFMerge, datasets
    >>> X = datasets.paper_example().X
    >>> NMFMerge(n_components=4).fit_transform(X).shape
    (8, 4)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        layer: str | None = None,
        mask_var: str | None = None,
        n_extra: int | None = None,
        solver: str = "accelerated",
        beta_loss: str = "frobenius",
        missing: str = "nan",
        init: Init = "nndsvd",
        n_init: int = 4,
        alpha_W: float = 0.0,
        alpha_H: float | str = "same",
        l1_ratio: float = 0.0,
        hold: Hold = None,
        tol: float = 1e-4,
        tol_intermediate: float | None = None,
        max_iter: int = 10_000,
        max_time: float | None = None,
        random_state: RandomState = None,
        callback: Callback | None = None,
        n_jobs: int | None = None,
        device: Any = None,
        tf32: bool = False,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.layer = layer
        self.mask_var = mask_var
        self.n_extra = n_extra
        self.solver = solver
        self.beta_loss = beta_loss
        self.missing = missing
        self.init = init
        self.n_init = n_init
        self.alpha_W = alpha_W
        self.alpha_H = alpha_H
        self.l1_ratio = l1_ratio
        self.hold = hold
        self.tol = tol
        self.tol_intermediate = tol_intermediate
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state
        self.callback = callback
        self.n_jobs = n_jobs
        self.device = device
        self.tf32 = tf32
        self.verbose = verbose

    def fit(self, X: Any, y: object = None, weights: Any = None) -> "NMFMerge":
        """Learn the components of X.

        Parameters
        ----------
        X : array, sparse matrix or Dask array (n_samples, n_features)
            Nonnegative data; NaN is missing.
        y : ignored
        weights : array or sparse matrix, optional
            Weights of the entries of X; see `nmfmerge.nmf`.

        Returns
        -------
        self
        """
        self.fit_transform(X, weights=weights)
        return self

    def fit_transform(self, X: Any, y: object = None, weights: Any = None) -> np.ndarray:
        """Learn the components of X and return their weights in each row; see `fit`.

        Returns
        -------
        W : array (n_samples, n_components)
        """
        with self._limited():
            X = self._part(X)
            data = self._check(X, reset=True, weights=weights)
            given = self.get_params(deep=False) | {"hold": self._held_rows()}
            given |= {"layer": None, "mask_var": None}  # data are that part already
            try:
                result = nmf_merge(data, **given)
            except Interrupted as stop:
                self._keep(stop.factorization)
                raise
            self._keep(result)
            if lazy.is_lazy(X):
                self._keep_error(result.fitting_error, data)
                # A lazy W is the best for H already.
                return result.W if lazy.is_lazy(result.W) else self._weights(X, weights)
            W = self._weights(data)
            self._keep_error(self._fitting_error(data, W), data)
            return W

    def transform(self, X: Any, weights: Any = None) -> np.ndarray:
        """Weights of the components in each row of X, as `nmfmerge.transform` computes them.

        NaN is missing, and entries of X may have ``weights``.

        Returns
        -------
        W : array (n_samples, n_components)
            If X is a Dask array, W is a lazy Dask array.
        """
        check_is_fitted(self)
        X = self._part(X)
        if lazy.is_lazy(X):
            self._check_features(lazy.checked(X).shape, reset=False)
            return self._weights(X, weights)
        with self._limited():
            return self._weights(self._check(X, reset=False, weights=weights))

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Data that the weights X (n_samples, n_components) stand for: ``X @ components_``."""
        check_is_fitted(self)
        X = X.toarray() if issparse(X) else X
        W = lazy.checked(X) if lazy.is_lazy(X) else check.check_array("X", X)
        if W.shape[1] != self.n_components_:
            raise ValueError(
                f"X has {W.shape[1]} columns; expected the weights of {self.n_components_} "
                "components, as transform returns them"
            )
        product = W @ tensors.to_numpy(self.components_)
        return tensors.like(product, self.components_)

    def score(self, X: Any, y: object = None, weights: Any = None) -> float:
        """Share of ‖X‖² that the components explain: 1 − ‖X − WH‖²/‖X‖²; higher is better.

        Under Kullback–Leibler, the share of the deviance of the margins. Only observed entries of X
        count, with their ``weights``.
        """
        check_is_fitted(self)
        X = self._part(X)
        if lazy.is_lazy(X):
            self._check_features(lazy.checked(X).shape, reset=False)
            return 1.0 - self._error_of_chunks(X, weights) / 100
        with self._limited():
            data = self._check(X, reset=False, weights=weights)
            return 1.0 - self._fitting_error(data, self._weights(data)) / 100

    def _part(self, X: Any) -> Any:
        """The layer and the variables of an AnnData that were asked for."""
        chosen = {name: settings.SETTINGS[name].check(getattr(self, name)) for name in _PART}
        return part_of(X, **chosen)

    def _limited(self) -> AbstractContextManager[None]:
        """Context in which no more than ``n_jobs`` threads work."""
        return at_most(settings.SETTINGS["n_jobs"].check(self.n_jobs))

    @property
    def _loss(self) -> Loss:
        return LOSSES[settings.SETTINGS["beta_loss"].check(self.beta_loss)]

    def _fitting_error(self, data: DataMatrix, W: np.ndarray) -> float:
        return metrics.fitting_error(data, W, self.components_, beta_loss=self.beta_loss)

    def _check(self, X: Any, reset: bool, weights: Any = None) -> DataMatrix:
        """Names and number of features by scikit-learn's rules, then values by ours."""
        source, X = X, without_holes(matrix_of(X))
        absent = settings.SETTINGS["missing"].check(self.missing)
        if tensors.is_tensor(X) or lazy.is_lazy(X):
            data = check.check_X(X, self.device, self.tf32, source, weights, absent)
            self._check_features(data.shape, reset)
            return data
        refuse("X", X)
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=("csr", "csc"),
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )
        data = check.check_X(X, self.device, self.tf32, source, weights, absent)
        solver_of(settings.SETTINGS["solver"].check(self.solver), self._loss.of(data))
        return data

    def _check_features(self, shape: tuple[int, int], reset: bool) -> None:
        """The number of features alone, for data that scikit-learn does not know."""
        if reset and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        few = np.broadcast_to(np.float64(0), (1, shape[1]))
        _check_n_features(self, few, reset=reset)

    def _weights(self, X: Any, weights: Any = None) -> np.ndarray:
        """The best weights of the components in X, with the penalty on W."""
        return transform(
            X,
            self.components_,
            weights=weights,
            missing=self.missing,
            beta_loss=self.beta_loss,
            alpha_W=self.alpha_W,
            l1_ratio=self.l1_ratio,
        )

    def _problem(self, data: DataMatrix, loss: Loss) -> Problem:
        """The problem of these data."""
        penalty = self._penalty(data.shape).scaled(data.unit, loss.degree, data.weight_unit)
        return Problem(data, loss, penalty)

    def _penalty(self, shape: tuple[int, int]) -> Penalty:
        """The penalty for data of this shape; that on W does not depend on the rows."""
        return Penalty.of(self.alpha_W, self.alpha_H, self.l1_ratio, shape)

    def _error_of_chunks(self, X: Any, weights: Any = None) -> float:
        """Fitting error of the weights that `transform` gives, of an X in chunks of rows."""
        if Need.LINES not in self._loss.needs:
            data = check.check_X(lazy.in_rows(X), weights=weights, absent=self.missing)
            return self._error_of(data)
        check.check_absent_in_chunks(self.missing)
        if weights is not None:
            raise refusals.weighted_chunks(self.beta_loss)
        penalty = self._penalty((1, X.shape[1]))
        given = {"H": self.components_, "loss": self._loss, "penalty": penalty}
        chunks = lazy.of_chunks(X, partial(_loss_of_chunk, **given))
        values, sizes, sums = (np.array(numbers) for numbers in zip(*chunks, strict=True))
        size = sizes.sum() + self._loss.size_between(sums)
        return float(100 * values.sum() / size) if size > 0 else 0.0

    def _error_of(self, data: DataMatrix) -> float:
        """Fitting error for the best W, in one pass over X in chunks of rows."""
        H = np.ascontiguousarray(self.components_ / data.unit, dtype=data.dtype)[None]
        problem = self._problem(data, self._loss)
        try:
            return problem.percent(float(problem.exact_losses(None, H)[0]))
        finally:
            data.release()

    def _held_rows(self) -> Hold:
        """The argument ``hold`` of `nmf_merge`: only rows of H, as W is solved for at the end."""
        if self.hold is None or not isinstance(self.hold, Mapping):
            return None if self.hold is None else {"H": self.hold}
        if "W" in self.hold:
            raise ArgumentError(
                "hold",
                "names columns of W; NMFMerge holds rows of H alone, as W is solved for again by "
                "transform",
                value=self.hold,
                fix="use hold=indices, or nmfmerge.nmf_merge",
            )
        return self.hold

    def _keep(self, result: Factorization) -> None:
        self.components_ = lazy.computed(result.H)
        self.n_components_ = result.n_components
        self.reconstruction_err_ = float(np.sqrt(2 * result.objective))
        self.n_iter_ = result.n_iter
        self.stages_ = result.stages
        self.merges_ = result.merges
        self.starts_ = result.starts

    def _keep_error(self, fitting_error: float, data: DataMatrix) -> None:
        """Keep ‖X − WH‖, which may be in range where its square is not, or √(2·D)."""
        size = self._loss.of(data).size(data) * data.weight_unit
        norm = float(np.sqrt(fitting_error / 100 * 2 * size))
        self.reconstruction_err_ = norm * data.unit**self._loss.degree

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """In a notebook: scikit-learn's diagram and, once fitted, the components."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] += self._fitted_html()
        return bundle

    def _repr_html_inner(self) -> str:
        html: str = super()._repr_html_inner()
        return html + self._fitted_html()

    def _fitted_html(self) -> str:
        if not hasattr(self, "components_"):
            return ""
        H = tensors.to_numpy(self.components_)
        return estimator_html(self.reconstruction_err_, self._loss.words.norm, H, self.stages_)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = self.solver in solvers_of(WEIGHTED_SQUARES)
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _loss_of_chunk(
    chunk: Any, H: np.ndarray, loss: Loss, penalty: Penalty
) -> tuple[float, float, np.ndarray]:
    """Loss of some rows of X, the loss that is 100 % for these alone, and their column sums."""
    sums = np.asarray(chunk.sum(axis=0), dtype=np.float64).ravel()
    if chunk.shape[0] == 0:
        return 0.0, 0.0, sums
    data = check.check_X(chunk)
    if data.weights is not None:
        raise refusals.missing_values(f"score of a Dask array by {loss.name!r}")
    problem = Problem(data, loss, penalty.scaled(data.unit, loss.degree))
    Wt, Ht = check.check_fit(problem.weights(H), H, data, len(H))
    value = problem.exact_losses(data.place(Wt, "W")[None], data.place(Ht, "H")[None])[0]
    return float(problem.in_full(value)), float(problem.in_full(problem.size)), sums
