"""Fits and checkpoints on disk, written as a whole or not at all, and read with checks.

`folder` is a finished fit; `checkpoint` keeps the `run_state` of an unfinished run. `records`
turns results into plain values and arrays for both. `tables` writes csv, Parquet and Excel.
"""
