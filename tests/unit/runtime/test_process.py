"""A holder's name: another process of the same machine can tell by it that the holder is gone, and only then."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from consolidator.process import has_ended, owner_name


def named(pid: int, started: str | None = None) -> str:
    """Return a name like this process's, of another process or of another that had its pid."""
    machine, _, began, token = owner_name().rsplit("/", 3)
    return "/".join([machine, str(pid), began if started is None else started, token])


def test_this_process_lives_and_no_other_that_had_its_pid() -> None:
    assert not has_ended(owner_name())
    assert has_ended(named(os.getpid(), "1"))


def test_a_process_that_has_ended_is_gone_also_before_anybody_has_heard_of_its_end() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(named(process.pid))
    assert has_ended(named(process.pid))


@pytest.mark.parametrize("name", ["elsewhere/boot/0/1/2/x", "elsewhere:1:2.00:x", "no such form", ""])
def test_of_what_is_not_of_this_machine_nobody_can_tell(name: str) -> None:
    assert not has_ended(name)


def test_a_holder_lives_on_when_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    linux = pytest.importorskip("psutil._pslinux")
    name, booted = owner_name(), psutil.boot_time()
    monkeypatch.setattr(linux, "boot_time", lambda: booted + 1)
    assert not has_ended(name)
