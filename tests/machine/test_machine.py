"""Cores and memory: what faked control groups say, and that all who count ask in one place."""

import os
import re
from pathlib import Path

import pytest

import nmfmerge
from nmfmerge import machine
from nmfmerge.machine import cores, machine_memory
from nmfmerge.machine.cgroups import ControlGroups
from nmfmerge.machine.cpu import quotas
from nmfmerge.machine.memory import memory_limits

UNLIMITED = "9223372036854771712\n"  # what version 1 says


@pytest.fixture
def groups(tmp_path):
    """Makes control groups from the groups of the process, and texts by file."""

    def make(own, files):
        for name, text in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "own").write_text(own)
        return ControlGroups(tmp_path / "cgroup", tmp_path / "own")

    return make


def test_version_2_limits_a_group_and_all_below_it(groups):
    two = groups(
        "0::/jobs/one\n",
        {
            "jobs/one/cpu.max": "max 100000", "jobs/cpu.max": "250000 100000",
            "jobs/one/memory.max": "max", "jobs/memory.max": "5000", "memory.max": "7000",
            "jobs/two/cpu.max": "100000 100000", "jobs/two/memory.max": "1000",
        },
    )  # fmt: skip
    assert list(quotas(two)) == [3]
    assert list(memory_limits(two)) == [5000, 7000]


def test_version_1_has_a_tree_for_each_controller(groups):
    one = groups(
        "4:memory:/held\n3:cpu,cpuacct:/jobs\n2:cpuset:/pinned\n0::/\n",
        {
            "cpu/jobs/cpu.cfs_quota_us": "200000\n", "cpu/jobs/cpu.cfs_period_us": "100000\n",
            "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n",
            "cpu/held/cpu.cfs_quota_us": "1\n", "cpu/held/cpu.cfs_period_us": "1\n",
            "memory/held/memory.limit_in_bytes": "4096\n",
            "memory/memory.limit_in_bytes": UNLIMITED,
        },
    )  # fmt: skip
    assert list(quotas(one)) == [2]
    assert min(memory_limits(one)) == 4096


def test_a_container_sees_its_own_group_at_the_root(groups):
    inside = groups("0::/system.slice/box.scope\n", {"cpu.max": "50000 100000", "memory.max": "9"})
    assert list(quotas(inside)) == [1]
    assert list(memory_limits(inside)) == [9]


def test_without_control_groups_nothing_is_limited(groups, tmp_path):
    for nothing in (groups("0::/\n", {}), ControlGroups(tmp_path, tmp_path / "missing")):
        assert list(quotas(nothing)) == []
        assert list(memory_limits(nothing)) == []


@pytest.fixture
def container(monkeypatch, groups):
    limited = groups("0::/\n", {"cpu.max": "100000 100000", "memory.max": "300000000"})
    for module in ("cpu", "memory"):
        monkeypatch.setattr(f"nmfmerge.machine.{module}.ControlGroups", lambda: limited)
    cores.cache_clear()
    yield
    cores.cache_clear()


@pytest.mark.usefixtures("container")
def test_a_container_has_less_than_its_machine():
    assert cores() == 1
    assert machine_memory() == 300_000_000


def test_the_machine_has_cores_and_memory():
    assert 1 <= cores() <= (os.cpu_count() or 1)
    assert 2**28 < machine_memory() < 2**50


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs affinity")
def test_affinity_is_respected():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores.__wrapped__() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_nobody_else_counts_cores_or_memory():
    counting = re.compile(r"cpu_count|sched_getaffinity|sysconf|virtual_memory\(\)\.total|sys/fs")
    package = Path(nmfmerge.__file__).parent
    found = {
        path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
        if counting.search(path.read_text(encoding="utf-8"))
    }
    assert found == {Path(machine.__file__).parent.name}
