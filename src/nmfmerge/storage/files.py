"""Files that are replaced as a whole or not at all, and locks that end with their process."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_HELD = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}  # another process has the lock
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL}  # on this file system
_LOCKED_BYTE = 2**30  # on Windows a locked byte cannot be read, so it lies beyond the content


class InUse(BlockingIOError):
    """Another run is at work on the same files."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file beside ``path``; when it is complete and on the disk, it takes its place.

    If anything fails, the old file at ``path`` is kept.
    """
    scratch = scratch_file(path)
    try:
        with open(scratch, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException as error:
        with suppress(OSError):
            scratch.unlink()
        if isinstance(error, OSError) and error.filename == str(scratch):
            error.filename = str(path)  # the name that the user knows
        raise


def scratch_file(path: Path) -> Path:
    """The file that `replacing` writes first; one that a killed process left is overwritten."""
    return path.with_name(f".{path.name}.nmfmerge-new")


class Lock:
    """A lock beside a file, held by one run at a time; it ends with the process, however that ends.

    The lock is the operating system's, on an open file. A lock file that a killed process left
    behind is therefore no obstacle. On a file system without locks nothing is locked.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f".{path.name}.nmfmerge-lock")
        self._file: FileIO | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises
        ------
        InUse
            If another run holds it; the message has the number of its process.
        OSError
            If the lock file cannot be made.
        """
        while self._file is None:
            file = open(self.path, "a+b", buffering=0)  # noqa: SIM115 (it stays open)
            try:
                _lock(file)
            except OSError as error:
                owner = _owner(file)
                file.close()
                if error.errno in _HELD:
                    raise InUse(f"in use by another run{owner}") from None
                if error.errno in _NO_LOCKS:
                    return
                raise
            if _is_at(file, self.path):
                self._file = file
            else:  # its owner deleted it after we opened it
                file.close()
        with suppress(OSError):  # on a full disk; the number is for messages only
            self._file.truncate(0)
            self._file.write(b"%d" % os.getpid())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Take the lock, and give it back at the end."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Delete the lock file and give the lock back."""
        file, self._file = self._file, None
        if file is None:
            return
        if sys.platform == "win32":  # where an open file cannot be deleted
            file.close()
        with suppress(OSError):
            self.path.unlink()
        file.close()


def _lock(file: FileIO) -> None:
    if sys.platform == "win32":
        file.seek(_LOCKED_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _owner(file: FileIO) -> str:
    with suppress(OSError):
        file.seek(0)
        number = file.read(20)
        if number.isdigit():
            return f" (process {int(number)})"
    return ""


def _is_at(file: FileIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
