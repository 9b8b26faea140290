"""`NMFMerge`: the pipeline as a scikit-learn transformer."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import _check_n_features, check_is_fitted, validate_data

from nmfmerge import lazy, metrics, tensors
from nmfmerge import validation as check
from nmfmerge.data import DataMatrix
from nmfmerge.display import estimator_html
from nmfmerge.foreign import refuse
from nmfmerge.labels import matrix_of
from nmfmerge.pipeline import Callback, Hold, Init, RandomState, nmf_merge, transform
from nmfmerge.result import Factorization
from nmfmerge.run import Interrupted


class NMFMerge(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Nonnegative matrix factorization by NMF-Merge, for scikit-learn.

    Takes the place of `sklearn.decomposition.NMF` (Frobenius loss, no penalties). `transform`
    solves the nonnegative least-squares problem of each row to the precision of X, so
    ``fit_transform(X)`` and ``fit(X).transform(X)`` give the same.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    n_extra : int, optional
        Number of extra components; default a fifth of ``n_components``, 0 is plain NMF.
    solver : {"accelerated", "hals", "gcd", "alspgrad", "mu"}
        Algorithm.
    init : {"nndsvd", "nndsvda", "nndsvdar", "random"}, (W0, H0) or a list of these
        Start of the initial stage; a list has one entry for each start and takes the place of
        ``n_init``.
    n_init : int, default=4
        Number of starts: ``init`` and random ones, of which the best is kept. Of several, a first
        start by NNDSVD is standard NMF and the others go through NMF-Merge. 1 is the method of the
        paper.
    hold : indices, optional
        Rows of H0, the first ones of ``init=(W0, H0)``, that stay as they are: known components,
        whose weights are sought together with the unknown rest.
    tol : float
        Stop when no component moves by more than this, relatively.
    tol_intermediate : float, optional
        Tolerance of the initial and over-complete stages; default √tol.
    max_iter : int
        Most iterations of each stage.
    max_time : float, optional
        Most seconds.
    random_state : int, Generator, RandomState or None
        Seed of the random starts; None is a fixed seed.
    callback : callable, optional
        Called after each iteration; see `nmfmerge.nmf`.
    device : str or torch.device, optional
        Where to compute, such as "cuda"; needs PyTorch. X may be a PyTorch tensor too, which is
        used where it is; results come back in kind.
    tf32 : bool
        Whether products with a float32 X on a GPU may use TF32; see `nmfmerge.nmf`.
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
        ‖X − WH‖ of the training data.
    n_iter_ : int
        Iterations of all stages together, from the best start.
    stages_ : tuple of Stage
        What each stage did.
    merges_ : MergeTree or None
        What the merge stage joined.
    starts_ : tuple of Start
        What each of several starts came to; empty if there was one.
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
        n_extra: int | None = None,
        solver: str = "accelerated",
        init: Init = "nndsvd",
        n_init: int = 4,
        hold: Hold = None,
        tol: float = 1e-4,
        tol_intermediate: float | None = None,
        max_iter: int = 10_000,
        max_time: float | None = None,
        random_state: RandomState = None,
        callback: Callback | None = None,
        device: Any = None,
        tf32: bool = False,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_extra = n_extra
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.hold = hold
        self.tol = tol
        self.tol_intermediate = tol_intermediate
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state
        self.callback = callback
        self.device = device
        self.tf32 = tf32
        self.verbose = verbose

    def fit(self, X: Any, y: object = None) -> "NMFMerge":
        """Learn the components of X.

        Parameters
        ----------
        X : array, sparse matrix or Dask array (n_samples, n_features)
            Nonnegative data.
        y : ignored

        Returns
        -------
        self
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: object = None) -> np.ndarray:
        """Learn the components of X and return their weights in each row.

        Returns
        -------
        W : array (n_samples, n_components)
        """
        data = self._check(X, reset=True)
        try:
            result = nmf_merge(data, **self.get_params(deep=False) | {"hold": self._held_rows()})
        except Interrupted as stop:
            self._keep(stop.factorization)
            raise
        self._keep(result)
        if lazy.is_lazy(X):
            self._keep_error(result.fitting_error, data)
            # A lazy W is the best for H already.
            return result.W if lazy.is_lazy(result.W) else transform(X, self.components_)
        W = transform(data, result.H)
        self._keep_error(metrics.fitting_error(data, W, result.H), data)
        return W

    def transform(self, X: Any) -> np.ndarray:
        """Weights of the components in each row of X: nonnegative least squares, by an active set.

        Returns
        -------
        W : array (n_samples, n_components)
            If X is a Dask array, one that is computed when it is asked for.
        """
        check_is_fitted(self)
        if lazy.is_lazy(X):
            self._check_features(lazy.checked(X).shape, reset=False)
            return transform(X, self.components_)
        return transform(self._check(X, reset=False), self.components_)

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

    def score(self, X: Any, y: object = None) -> float:
        """Share of ‖X‖² that the components explain: 1 − ‖X − WH‖²/‖X‖²; higher is better."""
        check_is_fitted(self)
        if lazy.is_lazy(X):
            data = self._check(lazy.in_rows(X), reset=False)
            return 1.0 - self._error_of(data) / data.norm2 if data.norm2 > 0 else 1.0
        data = self._check(X, reset=False)
        W = transform(data, self.components_)
        return 1.0 - metrics.fitting_error(data, W, self.components_) / 100

    def _check(self, X: Any, reset: bool) -> DataMatrix:
        """Names and number of features by scikit-learn's rules, then values by ours."""
        source, X = X, matrix_of(X)
        if tensors.is_tensor(X) or lazy.is_lazy(X):
            data = check.check_X(X, self.device, self.tf32, source)
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
        return check.check_X(X, self.device, self.tf32, source)

    def _check_features(self, shape: tuple[int, int], reset: bool) -> None:
        """The number of features alone, for data that scikit-learn does not know."""
        if reset and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        few = np.broadcast_to(np.float64(0), (1, shape[1]))
        _check_n_features(self, few, reset=reset)

    def _error_of(self, data: DataMatrix) -> float:
        """‖X − WH‖² for the best W, of an X in chunks of rows."""
        H = np.ascontiguousarray(self.components_ / data.unit, dtype=data.dtype)[None]
        try:
            return data.errors2(None, H)[0]
        finally:
            data.release()

    def _held_rows(self) -> Hold:
        """What is held, as `nmf_merge` wants it: rows of H alone, as W is solved for in the end."""
        if self.hold is None or not isinstance(self.hold, Mapping):
            return None if self.hold is None else {"H": self.hold}
        if "W" in self.hold:
            raise ValueError(
                f"hold={self.hold!r} names columns of W; NMFMerge holds rows of H alone, as W is "
                "solved for again by transform: use hold=indices, or nmfmerge.nmf_merge"
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
        """Keep ‖X − WH‖, which may be in range where its square is not."""
        norm = float(np.sqrt(fitting_error / 100 * data.norm2))
        self.reconstruction_err_ = norm * data.unit**2

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
        return estimator_html(self.reconstruction_err_, H, self.stages_)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
