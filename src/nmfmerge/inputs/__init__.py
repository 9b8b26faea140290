"""Checks of X, W and H, and conversion from other libraries.

Tensors, Dask arrays, data frames, AnnData and xarrays are recognised without importing their
libraries. What comes out is a matrix of `matrices`, or an error that says how to convert X.
"""
