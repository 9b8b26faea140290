"""All runs made so far, in one SQLite file that can be split into small ones and put together again."""

import hashlib
import io
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

from reproduce.runs import Run, identity
from reproduce.sets import SETS

PART = 12 * 2**20  # bytes of content in an exported file; with what SQLite adds, below 16 MiB
TINY = 2000  # numbers in W; in full single precision fewer take no room

_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    identity TEXT, alone INTEGER, settings TEXT, machine TEXT, record BLOB,
    PRIMARY KEY (identity, alone)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS factors (identity TEXT PRIMARY KEY, dtype TEXT, W BLOB);
CREATE TABLE IF NOT EXISTS machines (digest TEXT PRIMARY KEY, description TEXT);
"""
_DERIVED = "CREATE TABLE IF NOT EXISTS derived (key TEXT PRIMARY KEY, arrays BLOB);"


class Store:
    """Records of runs by their identity, and W of those whose components are compared.

    A record holds the fitting error, seconds, iterations and stages, and the machine it was made on. A
    run that was made alone on its machine is kept beside one made among others: only its times count
    about speed, and it alone has a trace of the error against time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[tuple[str, bool], dict | None] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(path, timeout=60)
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.executescript(_TABLES + _DERIVED)

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def has(self, run: Run, *, alone: bool = False, factors: bool = False) -> bool:
        """True if a run was made; optionally alone on its machine, or with its W kept."""
        name = identity(run)
        query = f"SELECT 1 FROM runs WHERE identity = ?{' AND alone' if alone else ''}"
        if not self._base.execute(query, (name,)).fetchone():
            return False
        query = "SELECT 1 FROM factors WHERE identity = ?"
        return not factors or self._base.execute(query, (name,)).fetchone() is not None

    def get(self, run: Run, *, alone: bool = False) -> dict | None:
        """The record of a run, or None if it was not made yet."""
        key = identity(run), alone
        if self._read.get(key) is None:
            query = (
                "SELECT record, description FROM runs LEFT JOIN machines ON machine = digest "
                f"WHERE identity = ?{' AND alone' if alone else ''} ORDER BY alone DESC LIMIT 1"
            )
            row = self._base.execute(query, key[:1]).fetchone()
            self._read[key] = row and _unpacked(row[0]) | {"machine": json.loads(row[1])}
        return self._read[key]

    def factors(self, run: Run) -> np.ndarray | None:
        """W of a stored run, each column scaled to a largest entry of 1; None if it was not kept."""
        query = "SELECT dtype, W FROM factors WHERE identity = ?"
        row = self._base.execute(query, (identity(run),)).fetchone()
        return row and _expanded(*row).reshape(-1, run.rank)

    def put(self, run: Run, record: dict, machine: dict, W: np.ndarray | None = None) -> None:
        """Keep a run; ``machine`` says on what it was made, and among how many (``jobs``).

        One made in a batch has no number of jobs, and no times of its own.
        """
        kept = record if machine.get("jobs") == 1 else record | {"trace": []}
        with self._base:
            self._insert_run("INSERT OR REPLACE", run, kept, machine)
            if W is not None:
                packed = _shrunk(W, _significant_bits(run, W))
                _insert(self._base, "INSERT OR REPLACE", "factors", (identity(run), *packed))
        for alone in (False, True):
            self._read.pop((identity(run), alone), None)

    def add(self, run: Run, record: dict, machine: dict) -> bool:
        """Add a run unless it is here already; return whether it was added."""
        return self._insert_run("INSERT OR IGNORE", run, record, machine)

    def _insert_run(self, how: str, run: Run, record: dict, machine: dict) -> bool:
        described = json.dumps(machine, sort_keys=True)
        digest = hashlib.sha256(described.encode()).hexdigest()[:16]
        _insert(self._base, "INSERT OR IGNORE", "machines", (digest, described))
        settings, alone = json.dumps(asdict(run)), machine.get("jobs") == 1
        row = identity(run), alone, settings, digest, _packed(record)
        return _insert(self._base, how, "runs", row) > 0

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Context in which what is added is written in one go."""
        with self._base:
            yield

    def derived(
        self, name: str, runs: list[Run], compute: Callable[[], dict[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """Arrays that follow from the factors of runs, computed once and kept."""
        key = _derived_key(name, runs)
        row = self._base.execute("SELECT arrays FROM derived WHERE key = ?", (key,)).fetchone()
        if row is not None:
            return _arrays(row[0])
        arrays = compute()
        with self._base:
            self.add_derived(key, arrays)
        return arrays

    def has_derived(self, name: str, runs: list[Run]) -> bool:
        """True if these arrays were computed, or came without the factors they follow from."""
        query = "SELECT 1 FROM derived WHERE key = ?"
        return self._base.execute(query, (_derived_key(name, runs),)).fetchone() is not None

    def all_derived(self) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
        """All arrays that follow from factors, by their keys."""
        for key, blob in self._base.execute("SELECT key, arrays FROM derived ORDER BY key"):
            yield key, _arrays(blob)

    def add_derived(self, key: str, arrays: dict[str, np.ndarray]) -> None:
        """Keep arrays by their key, unless there are some."""
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        _insert(self._base, "INSERT OR IGNORE", "derived", (key, buffer.getvalue()))

    def export(self, folder: Path, size: int = PART) -> list[Path]:
        """Write all runs to files of about ``size`` bytes; return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("runs-*.sqlite"):
            old.unlink()
        paths = []
        for number, rows in enumerate(_portions(_rows(self._base), size)):
            paths.append(folder / f"runs-{number}.sqlite")
            with closing(sqlite3.connect(paths[-1])) as part, part:
                part.executescript(_TABLES)
                for table, row in rows:
                    _insert(part, "INSERT", table, row)
        return paths

    def take_in(self, paths: Iterable[Path]) -> int:
        """Add the runs of exported files, but those that are here already; return how many."""
        before = self._count()
        for path in paths:
            if not path.is_file():
                raise FileNotFoundError(f"--import: there is no file {path}")
            try:
                part = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
                with closing(part), self._base:
                    for table, row in _rows(part):
                        _insert(self._base, "INSERT OR IGNORE", table, row)
            except sqlite3.DatabaseError as error:
                message = f"--import: {path} is not a file of stored runs ({error})"
                raise ValueError(message) from None
        self._read.clear()
        return self._count() - before

    def _count(self) -> int:
        return self._base.execute("SELECT count(*) FROM runs").fetchone()[0]


def _rows(base: sqlite3.Connection) -> Iterator[tuple[str, tuple]]:
    """All that is worth carrying to another store: rows with the name of their table."""
    for table in ("machines", "runs", "factors"):
        for row in base.execute(f"SELECT * FROM {table}"):
            yield table, row


def _insert(base: sqlite3.Connection, how: str, table: str, row: tuple) -> int:
    """Insert a row; return how many were."""
    return base.execute(f"{how} INTO {table} VALUES ({', '.join('?' * len(row))})", row).rowcount


def _derived_key(name: str, runs: list[Run]) -> str:
    return hashlib.sha256(json.dumps([name, *map(identity, runs)]).encode()).hexdigest()


def _arrays(blob: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(blob)) as archive:
        return dict(archive)


def _portions(rows: Iterable[tuple[str, tuple]], size: int) -> Iterator[list]:
    """Split rows so that each portion has at most ``size`` bytes of content, if no row has more."""
    portion, used = [], 0
    for table, row in rows:
        content = 32 + sum(len(value) if hasattr(value, "__len__") else 8 for value in row)
        if portion and used + content > size:
            yield portion
            portion, used = [], 0
        portion.append((table, row))
        used += content
    if portion:
        yield portion


def _packed(record: dict) -> bytes:
    return zlib.compress(json.dumps(record).encode())


def _unpacked(blob: bytes) -> dict:
    return json.loads(zlib.decompress(blob))


def _significant_bits(run: Run, W: np.ndarray) -> int:
    """As many bits as comparing W needs: on large data starts differ by much, on tiny by little."""
    return 8 if SETS[run.data].large else 24 if W.size < TINY else 16


def _shrunk(W: np.ndarray, bits: int) -> tuple[str, bytes]:
    """W in few bytes: columns scaled to 1, numbers rounded, like bytes of them side by side."""
    largest = W.max(axis=0)
    mantissa, exponent = np.frexp(W / np.where(largest > 0, largest, 1))
    rounded = np.ldexp(np.round(mantissa * 2**bits) / 2**bits, exponent)
    small = np.ascontiguousarray(rounded, np.float16 if bits <= 11 else np.float32)
    planes = small.view(np.uint8).reshape(-1, small.itemsize).T
    return small.dtype.str, zlib.compress(planes.tobytes(), 6)


def _expanded(dtype: str, blob: bytes) -> np.ndarray:
    planes = np.frombuffer(zlib.decompress(blob), np.uint8).reshape(np.dtype(dtype).itemsize, -1)
    return np.ascontiguousarray(planes.T).view(dtype).astype(np.float32)
