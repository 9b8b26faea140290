"""How results speak of a loss: the words of figures, reports, tables and notebooks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """The words for fits by one loss.

    Attributes
    ----------
    error_of : str
        What a fitting error is in percent of.
    headline : str
        What a fit explains, with ``{kept}`` and ``{error}`` in percent; it follows the number of
        components.
    norm : str
        What `NMFMerge.reconstruction_err_` is.
    whole : str
        What merge penalties are in percent of.
    share_of : str
        What the share of a component is a share of.
    penalty : str
        What the penalty of a merge is.
    change : str
        The unit of the root of a penalty.
    strengths : str
        What says how much X has of recovered components, in the plural.
    strength : str
        What one of these numbers means.
    level : str
        What the level of the fit beside the merge penalties is.
    """

    error_of: str
    headline: str
    norm: str
    whole: str
    share_of: str
    penalty: str
    change: str
    strengths: str
    strength: str
    level: str
