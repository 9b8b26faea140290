"""One file for the state of a computation, replaced as a whole or not at all.

Input: a record for JSON and arrays, with the identity of the computation. Output: an npz file
with a checksum. A file that is damaged, or that belongs to other data or settings, is refused.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, ClassVar

import numpy as np

from nmfmerge.storage.files import InUse, Lock, replacing
from nmfmerge.storage.records import Arrays, Record, read_arrays

_MAX_SAVE_SHARE = 0.02  # of the run time spent on saving
_MIN_INTERVAL = 1.0  # seconds from one save to the next


class CheckpointError(ValueError):
    """A checkpoint cannot be used; ``fault`` says why."""

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__(
            f"checkpoint {str(path)!r} {fault}; name another file, or delete it to start over"
        )
        self.fault = fault


class OtherRun(CheckpointError):
    """A checkpoint belongs to another run; ``differences`` maps names to (saved, present)."""

    def __init__(self, path: Path, differences: dict[str, tuple[Any, Any]]) -> None:
        listed = ", ".join(
            "other data" if name == "data" else f"{name}: {saved!r}, now {present!r}"
            for name, (saved, present) in differences.items()
        )
        super().__init__(path, f"is of another run ({listed})")
        self.differences = differences


class StateFile:
    """A file that keeps the state of one computation; used as a context, it is locked.

    Parameters
    ----------
    path : path
        The file; a symbolic link is followed.
    identity : mapping
        What decides the result: settings and a digest of the data, as values for JSON. A file with
        another identity is refused.
    """

    format: ClassVar[int | str]  # of what is written

    def __init__(self, path: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        self.path = Path(os.path.realpath(path))
        self.identity = json.loads(json.dumps(identity))
        self._lock = Lock(self.path)
        self._last = perf_counter()
        self._cost = 0.0
        self._warned = False

    def __enter__(self) -> "StateFile":
        try:
            self._lock.acquire()
        except InUse as error:
            raise InUse(
                f"checkpoint {str(self.path)!r} is {error}: wait until it ends, or name another "
                "file"
            ) from None
        except OSError as error:
            raise ValueError(
                f"checkpoint {str(self.path)!r} cannot be written ({error.strerror}); name a file "
                "in a folder that you may write to"
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def due(self) -> bool:
        """True if the next save is due."""
        return perf_counter() - self._last > max(_MIN_INTERVAL, self._cost / _MAX_SAVE_SHARE)

    def write(self, record: Record, arrays: Arrays) -> None:
        """Write the state; if that fails, warn once, keep the last good file and try again later.

        A run is worth more than its checkpoint, so a full disk does not end it.
        """
        began = perf_counter()
        record |= {"format": self.format, "identity": self.identity, "arrays": sorted(arrays)}
        arrays["record"] = np.array(json.dumps(record))
        arrays["checksum"] = np.array(_checksum(arrays))
        try:
            with replacing(self.path) as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
        except OSError as error:
            self._warn(error)
        self._last = perf_counter()
        self._cost = self._last - began

    def read(self) -> tuple[Record, Arrays] | None:
        """The record and the arrays that were written; None if there is no file.

        Raises
        ------
        OtherRun
            If the file belongs to a run of other data or settings.
        CheckpointError
            If the file is damaged, or no checkpoint.
        """
        if not self.path.exists():
            return None
        try:
            arrays = read_arrays(self.path)
            if str(arrays.pop("checksum")) != _checksum(arrays):
                raise ValueError("its checksum is wrong")
            record = json.loads(str(arrays.pop("record")))
            saved_format, identity = record["format"], dict(record["identity"])
        except Exception as error:  # whatever a damaged archive makes its reader raise
            raise self.refusal("is damaged, or no checkpoint", error) from error
        if saved_format != self.format:
            raise OtherRun(self.path, {"format": (saved_format, self.format)})
        if found := differences(identity, self.identity):
            raise OtherRun(self.path, found)
        return record, arrays

    def refusal(self, fault: str, error: Exception) -> CheckpointError:
        """The error about a file that cannot be used."""
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        return CheckpointError(self.path, f"{fault} ({' '.join(reason.split())})")

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"checkpoint {str(self.path)!r} could not be saved ({error.strerror or error}); "
                "the run continues, and tries to save again later",
                RuntimeWarning,
                stacklevel=2,
            )


def differences(saved: Mapping[str, Any], present: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Names under which two runs differ, with the saved and the present value."""
    return {
        name: (saved.get(name), present.get(name))
        for name in sorted({*saved, *present})
        if saved.get(name) != present.get(name)
    }


def _checksum(arrays: Mapping[str, np.ndarray]) -> str:
    """A hash of names, types, shapes and bytes."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).view(np.uint8).ravel().data)
    return total.hexdigest()
