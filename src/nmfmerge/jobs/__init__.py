"""Whole analyses of a field, from its data to the tables and figures that are usual there.

A job chooses what to fit, fits it many times, and puts what was found into the terms of the field.
"""

from nmfmerge.jobs.mutations.activities import Activities
from nmfmerge.jobs.mutations.catalogue import Catalogue
from nmfmerge.jobs.mutations.extract import Signatures, signatures
from nmfmerge.jobs.mutations.refit import refit
from nmfmerge.jobs.programs import Programs, programs

__all__ = ["Activities", "Catalogue", "Programs", "Signatures", "programs", "refit", "signatures"]
