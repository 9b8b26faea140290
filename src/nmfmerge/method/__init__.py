"""NMF-Merge as the paper describes it: starts, stages, and the choice of the best start.

`run` goes through the stages: fit, recover components, fit, merge, fit.
"""
