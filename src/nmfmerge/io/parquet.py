"""Parquet tables: numeric columns become X, the index or a first column of text names the rows."""

from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.build import build, named_axis
from nmfmerge.io.errors import FormatError, library
from nmfmerge.io.memory import Memory


def read_parquet(path: Path, memory: Memory) -> Dataset:
    """Read a Parquet table."""
    parquet = library("pyarrow.parquet", ".parquet", "pyarrow", "tables")
    with parquet.ParquetFile(path) as file:
        memory.needs(_declared_size(file.metadata))
        table = file.read()
    index = _index_columns(table)
    names = [name for name in table.column_names if name not in index]
    if not names or not table.num_rows:
        raise FormatError(f"{path} has no column of numbers: store the matrix in it")
    X = np.column_stack([_numbers(path, name, table.column(name)) for name in names])
    return build(path, X, _rows(table, index), named_axis("column", names), memory=memory)


def _declared_size(metadata: Any) -> int:
    """Bytes of the table, and of its pages once they are unpacked, as the file declares them."""
    # of the groups only: the library aborts at columns whose statistics are damaged
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    n_rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    unpacked = sum(group.total_byte_size for group in groups)
    return max(unpacked, 8 * n_rows * metadata.num_columns)


def _index_columns(table: Any) -> list[str]:
    """Columns that name the rows: the index that pandas stored, or a first column of text."""
    stored = (table.schema.pandas_metadata or {}).get("index_columns", [])
    index = [name for name in stored if isinstance(name, str) and name in table.column_names]
    if index or not table.num_columns:
        return index
    return table.column_names[:1] if _is_text(table.schema.field(0).type) else []


def _is_text(kind: Any) -> bool:
    return str(getattr(kind, "value_type", kind)) in ("string", "large_string", "string_view")


def _rows(table: Any, index: list[str]) -> Axis | None:
    if not index:
        return None
    columns = [table.column(name).to_pylist() for name in index]
    names = ["/".join(map(str, parts)) for parts in zip(*columns, strict=True)]
    title = "" if index[0].startswith("__index_level_") else "/".join(index)
    return named_axis("row", names, title)


def _numbers(path: Path, name: str, column: Any) -> np.ndarray:
    values = column.to_numpy()  # empty cells of numbers become NaN
    if column.null_count and values.dtype.kind == "O" and str(column.type) != "string":
        values = np.array([np.nan if cell is None else cell for cell in values.tolist()])
    if values.dtype.kind not in "fiub":
        raise FormatError(
            f"{path} has a column {name!r} of {column.type}, not of numbers: drop or convert it"
        )
    return values
