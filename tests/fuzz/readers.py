"""Damaged files of every format: `read` gives a valid data set or says in one line what is wrong.

Each case is a valid file with a few changes, made from the seed and the number of the case alone.
Cases run in a process with limits on memory, so that a crash, a hang or a grasp for memory is a
failure of its case and not the end of the run.
"""

import gzip
import io
import multiprocessing
import os
import random
import re
import shutil
import struct
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.io.parts import files_of
from tests.fuzz.seeds import OPTIONS, seed_names, write_seeds

SECONDS = 60  # for one case
MAX_MEMORY = "200MB"
ADDRESS_SPACE = 3 * 2**30  # beyond what the process has when it starts
RARE = 20  # a MATLAB file starts a process: one case in so many of what other formats have
NUMBERS = (b"0", b"-1", b"1", b"7", b"999", b"2147483648", b"99999999999", b"1e308", b"nan", b"")
WORDS = (0, 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)


# The changes


def mutate(rng: random.Random, raw: bytes) -> bytes:
    """Change a file in one or a few places."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        raw = rng.choice((_flip, _flip, _overwrite, _cut, _delete, _insert, _number, _number))(
            rng, raw
        )
    return raw


def _flip(rng: random.Random, raw: bytes) -> bytes:
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 8)) if raw else 0):
        at = rng.randrange(len(raw))
        changed[at] = rng.choice((rng.randrange(256), 0, 255, 127, 128, changed[at] ^ 1))
    return bytes(changed)


def _overwrite(rng: random.Random, raw: bytes) -> bytes:
    """A number of a header with one at the end of its range, in either order of bytes."""
    kind = rng.choice("HIQ")
    value = rng.choice(WORDS) % 256 ** struct.calcsize(kind)
    word = struct.pack(rng.choice("<>") + kind, value)
    at = rng.randrange(len(raw) + 1)
    return raw[:at] + word + raw[at + len(word) :]


def _cut(rng: random.Random, raw: bytes) -> bytes:
    return raw[: rng.randrange(len(raw) + 1)]


def _delete(rng: random.Random, raw: bytes) -> bytes:
    at = rng.randrange(len(raw) + 1)
    return raw[:at] + raw[at + rng.choice((1, 2, 4, 16, 100)) :]


def _insert(rng: random.Random, raw: bytes) -> bytes:
    at, n = rng.randrange(len(raw) + 1), rng.choice((1, 4, 16, 100))
    piece = rng.choice((rng.randbytes(n), raw[at : at + n], bytes(n)))
    return raw[:at] + piece + raw[at:]


def _number(rng: random.Random, raw: bytes) -> bytes:
    """A number that is written out, such as a shape, with another."""
    found = list(re.finditer(rb"-?\d+", raw[:20_000]))
    if not found:
        return _flip(rng, raw)
    old = rng.choice(found)
    return raw[: old.start()] + rng.choice(NUMBERS) + raw[old.end() :]


def damage(rng: random.Random, path: Path) -> None:
    """Damage a file, or a file of a folder; what is packed is damaged before or after packing."""
    if path.is_dir():
        path = rng.choice(sorted(file for file in path.rglob("*") if file.is_file()))
    raw, inside = path.read_bytes(), rng.random() < 0.7
    if inside and path.suffix == ".gz":
        raw = gzip.compress(mutate(rng, gzip.decompress(raw)))
    elif inside and path.suffix in (".npz", ".xlsx"):
        raw = _damage_member(rng, raw)
    else:
        raw = mutate(rng, raw)
    path.write_bytes(raw)


def _damage_member(rng: random.Random, raw: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(packed, "w") as new:
        chosen = rng.choice(old.namelist())
        for name in old.namelist():
            member = old.read(name)
            new.writestr(name, mutate(rng, member) if name == chosen else member)
    return packed.getvalue()


# One case


def make_case(seeds: Path, folder: Path, seed: int, number: int) -> Path:
    """The damaged file of a case, in a folder."""
    rng = random.Random(f"{seed}/{number}")
    names = seed_names(seeds)
    weights = [1 if name.endswith(".mat") and name != "m73.mat" else RARE for name in names]
    name = rng.choices(names, weights)[0]
    path = folder / name
    if (seeds / name).is_dir():
        shutil.copytree(seeds / name, path)
    else:
        for file in files_of(seeds / name):
            shutil.copy(file, folder)
    damage(rng, path)
    return path


def outcome(path: Path) -> str:
    """What reading a file comes to: "read", "refused", or what is wrong with that."""
    from nmfmerge.io import FormatError, ReadingWarning, describe, read

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what libraries say is kept from the user
        warnings.simplefilter("ignore", ReadingWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            data = read(path, max_memory=MAX_MEMORY, **OPTIONS.get(path.name, {}))
            return _check_data(data) or (describe(data) and "read")
        except FormatError as error:
            return _check_message(str(error), path) or _check_cause(error) or "refused"
        except BaseException:
            return f"another error: {traceback.format_exc()}"


def _check_message(message: str, path: Path) -> str:
    if str(path) not in message or "\n" in message or len(message) > 1000:
        return f"a message that is not one line with the file: {message!r}"
    return ""


def _check_cause(error: BaseException | None) -> str:
    while error is not None:
        if isinstance(error, MemoryError):
            return f"memory was asked for before it was checked: {traceback.format_exc()}"
        error = error.__cause__ or error.__context__
    return ""


def _check_data(data: Any) -> str:
    X = data.X
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "fiub":
        return f"X is {X.dtype} of shape {X.shape}"
    if X.shape != (len(data.rows.values), len(data.columns.values)):
        return f"axes do not fit X of shape {X.shape}"
    if sp.issparse(X):
        X.check_format(full_check=True)
        if X.format != "csr" or not X.has_canonical_format:
            return "sparse X is not canonical CSR"
    elif not isinstance(X, np.ndarray):
        return f"X is a {type(X)}"
    return ""


# Many cases, in processes


def work(seeds: str, folder: str, seed: int, pipe: Any) -> None:
    """Answer each number of a case with its outcome, until None comes."""
    _limit_memory()
    while (number := pipe.recv()) is not None:
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).mkdir()
        path = make_case(Path(seeds), Path(folder), seed, number)
        pipe.send((path.name, outcome(path)))


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:
        return
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def outcomes(seeds: Path, folder: Path, seed: int, numbers: range) -> Iterator[tuple]:
    """Number, name and outcome of each case; a process that is lost is started again."""
    context = multiprocessing.get_context("spawn")
    process, pipe = None, None
    for number in numbers:
        if process is None:
            pipe, other = context.Pipe()
            process = context.Process(target=work, args=(str(seeds), str(folder), seed, other))
            process.start()
            other.close()
        pipe.send(number)
        try:
            answer = pipe.recv() if pipe.poll(SECONDS) else None
        except EOFError:
            answer = None
        if answer is None:
            process.join(1)
            hung = process.exitcode is None
            process.kill()
            process.join()
            what = f"no answer in {SECONDS} s" if hung else f"ended with {process.exitcode}"
            answer, process = ("?", f"the process: {what}"), None
        yield number, *answer
    if process is not None:
        pipe.send(None)
        process.join()


def fuzz(cases: int, seed: int = 0, jobs: int | None = None, keep: Path | None = None) -> list:
    """Run cases; print their count and what failed, and return the failures.

    Failures are (number, name, what is wrong); `make_case` makes their files again, which are also
    copied to the folder ``keep``.
    """
    jobs = jobs or max(1, (os.cpu_count() or 2) // 2)
    counts: Counter = Counter()
    failures = []
    with tempfile.TemporaryDirectory() as scratch:
        seeds = Path(scratch, "seeds")
        seeds.mkdir()
        names = write_seeds(seeds)

        def share(job: int) -> None:
            numbers = range(job, cases, jobs)
            for number, name, what in outcomes(seeds, Path(scratch, f"job{job}"), seed, numbers):
                kind = what if what in ("read", "refused") else "failed"
                counts[kind] += 1
                if kind == "failed":
                    failures.append((number, name, what))
                    print(f"case {number} of seed {seed} ({name}): {what}", flush=True)
                    if keep is not None:
                        kept = keep / f"{seed}-{number}"
                        shutil.rmtree(kept, ignore_errors=True)
                        kept.mkdir(parents=True)
                        make_case(seeds, kept, seed, number)
                if sum(counts.values()) % 5000 == 0:
                    print(f"{sum(counts.values()):,} cases: {dict(counts)}", flush=True)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(share, range(jobs)))
    print(f"readers: {cases:,} cases of {len(names)} files, seed {seed}: {dict(counts)}")
    return failures
