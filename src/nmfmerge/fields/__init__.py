"""The tables, figures and files of each field: one module per field, listed in `registry`.

A `Field` recognises its data by their axes. It says where a component peaks in the words of the
field, which tables a result has, and how the axes are drawn. Elsewhere only readers name such axes.
"""
