"""Components that many fits agree on, at several ranks: the engine behind `nmfmerge.consensus`.

`fits` makes the fits, in threads or many at once on a device, each of X or of data that `resample`
draws from it. `cluster` matches their components, and `summary` turns each rank into its consensus.
"""
