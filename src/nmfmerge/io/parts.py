"""The files that a data set consists of: mostly one, or those of a folder."""

from pathlib import Path

_DATA = ("", ".img", ".dat", ".raw", ".bsq", ".bil", ".bip", ".sli")


def files_of(path: Path) -> list[Path]:
    """The file, with the data file beside it if it is an ENVI header; the files of a folder."""
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file())
    if path.suffix.lower() != ".hdr":
        return [path]
    names = [f"{path.stem}{end}" for suffix in _DATA for end in (suffix, suffix.upper())]
    data = (path.with_name(name) for name in dict.fromkeys(names))
    return [path, *(file for file in data if file.is_file())]
