"""The chunks of a Zarr array: how much memory each declares that it unpacks to."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ZSTD = b"\x28\xb5\x2f\xfd"
_HEAD = 18  # bytes, as long as the longest header


def declared_sizes(folder: Path, array: Any) -> Iterator[int]:
    """Bytes that each packed chunk in the folder of an array declares, where it does."""
    packing = _packing(array)
    if not packing:
        return
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix != ".json" and not file.name.startswith("."):
            with file.open("rb") as opened:
                yield _declared(packing, opened.read(_HEAD))


def _packing(array: Any) -> str:
    """blosc, zstd, or nothing for those that do not declare a size."""
    used = getattr(array, "compressors", None)  # none at all, where nothing is packed
    used = [getattr(array, "compressor", None)] if used is None else used
    names = " ".join(type(one).__name__.lower() for one in used)
    return next((name for name in ("blosc", "zstd") if name in names), "")


def _declared(packing: str, head: bytes) -> int:
    if packing == "blosc":
        return int.from_bytes(head[4:8], "little")
    if not head.startswith(_ZSTD) or len(head) < 6:
        return 0
    flags = head[4]
    width = (0, 2, 4, 8)[flags >> 6]
    single = flags >> 5 & 1
    if width == 0 and single:
        width = 1
    at = 5 + (0 if single else 1) + (0, 1, 2, 4)[flags & 3]
    return int.from_bytes(head[at : at + width], "little") + (256 if width == 2 else 0)
