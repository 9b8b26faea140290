"""The control groups of this process, of version 1 or 2, as Linux shows them in files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ControlGroups:
    """Where the system shows control groups, and to which of them this process belongs."""

    root: Path = Path("/sys/fs/cgroup")
    own: Path = Path("/proc/self/cgroup")

    def numbers(self, controller: str, *files: str) -> Iterator[list[int]]:
        """The numbers in some files of each group that limits this process, innermost first.

        Groups that lack a file, or do not have numbers in it ("max" is none), are left out. A
        group limits what is in the groups below it, too.
        """
        for folder in self._folders(controller):
            try:
                words = [word for file in files for word in (folder / file).read_text().split()]
                yield [int(word) for word in words]
            except (OSError, ValueError):
                continue

    def _folders(self, controller: str) -> Iterator[Path]:
        """The groups of a controller that this process is in, and those above them."""
        try:
            lines = self.own.read_text().splitlines()
        except OSError:  # no control groups
            return
        for line in lines:
            _, controllers, group = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            root = self.root / controller if controllers else self.root
            folder = root / group.lstrip("/")  # which a container may not see, unlike the root
            for place in (folder, *folder.parents):
                yield place
                if place == root:
                    break
