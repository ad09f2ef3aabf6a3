"""The units in deploy/systemd: systemd accepts them, and they agree with the settings' schedules."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from consolidator.jobs.nightly import JOBS
from tests.unit.project.deploy import DEPLOY, next_run

SYSTEMD = DEPLOY / "systemd"
SCOPES = ("system", "user")
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")


def read_unit(path: Path) -> dict[str, list[str]]:
    """Return a unit's settings: lists of values by `Section.Key`."""
    assignments: dict[str, list[str]] = {}
    section = ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            assignments.setdefault(f"{section}.{key}", []).append(value)
    return assignments


def unit_paths(scope: str, kind: str) -> list[Path]:
    """Return the unit files of a kind, such as timer."""
    return sorted((SYSTEMD / scope).glob(f"*.{kind}"))


def copy_with_program(scope: str, tmp_path: Path) -> list[Path]:
    """Copy a scope's units, with a program that exists on every machine."""
    copied = []
    for path in unit_paths(scope, "*"):
        text = re.sub(r"^ExecStart=\S+", f"ExecStart={shutil.which('true')}", path.read_text(), flags=re.MULTILINE)
        copied.append(tmp_path / path.name)
        copied[-1].write_text(text)
    return copied


def analyze(*arguments: str | Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze; skip if it does not work on this machine."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC", "XDG_RUNTIME_DIR": str(home)}
    command = ["systemd-analyze", *map(str, arguments)]
    completed = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if "unrecognized option" in completed.stderr or "Failed to initialize manager" in completed.stderr:
        pytest.skip(completed.stderr.strip())
    return completed


@needs_systemd
@pytest.mark.parametrize("scope", SCOPES)
def test_systemd_takes_the_units_without_a_word(scope: str, tmp_path: Path) -> None:
    done = analyze(f"--{scope}", "verify", "--man=no", *copy_with_program(scope, tmp_path), home=tmp_path)
    assert "consolidator" not in done.stderr
    assert done.returncode == 0


@needs_systemd
def test_systemd_finds_the_system_units_hardened(tmp_path: Path) -> None:
    copied = [path for path in copy_with_program("system", tmp_path) if path.suffix == ".service"]
    done = analyze("security", "--offline=true", "--threshold=20", "--no-pager", *copied, home=tmp_path)
    assert done.returncode == 0, done.stdout[-500:]


@needs_systemd
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("job", JOBS)
def test_systemd_runs_a_timer_when_the_settings_say(job: str, scope: str, tmp_path: Path) -> None:
    (calendar,) = read_unit(SYSTEMD / scope / f"consolidator-{job}.timer")["Timer.OnCalendar"]
    done = analyze("calendar", "--base-time=2026-01-01 00:00:00 UTC", calendar, home=tmp_path)
    assert next_run(job).strftime("Next elapse: Thu %Y-%m-%d %H:%M:%S UTC") in done.stdout


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("job", JOBS)
def test_a_timer_says_when_in_utc_and_is_caught_up(job: str, scope: str) -> None:
    timer = read_unit(SYSTEMD / scope / f"consolidator-{job}.timer")
    assert timer["Timer.OnCalendar"] == [next_run(job).strftime("*-*-* %H:%M:%S UTC")]
    assert timer["Timer.Persistent"] == ["true"]
    assert timer["Install.WantedBy"] == ["timers.target"]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("job", JOBS)
def test_a_timer_has_a_service_that_runs_its_job(job: str, scope: str) -> None:
    service = read_unit(SYSTEMD / scope / f"consolidator-{job}.service")
    assert service["Service.ExecStart"][0].split()[1:] == ["run", job]
    assert service["Service.Type"] == ["oneshot"]


@pytest.mark.parametrize("scope", SCOPES)
def test_jobs_that_come_due_at_once_wait_for_the_one_before(scope: str) -> None:
    for before, job in pairwise(JOBS):
        assert (
            f"consolidator-{before}.service" in read_unit(SYSTEMD / scope / f"consolidator-{job}.service")["Unit.After"]
        )
        assert f"consolidator-{before}.timer" in read_unit(SYSTEMD / scope / f"consolidator-{job}.timer")["Unit.After"]


@pytest.mark.parametrize("scope", SCOPES)
def test_the_service_serves(scope: str) -> None:
    service = read_unit(SYSTEMD / scope / "consolidator.service")
    assert service["Service.ExecStart"][0].split()[1:] == ["serve"]
    assert service["Service.Restart"] == ["on-failure"]


@pytest.mark.parametrize(("scope", "target"), [("system", "multi-user.target"), ("user", "default.target")])
def test_sessions_are_woken_at_boot_with_the_tools_that_are_named(scope: str, target: str) -> None:
    waking = read_unit(SYSTEMD / scope / "consolidator-wake.service")
    assert waking["Service.ExecStart"][0].split()[1:] == [
        "session",
        "wake",
        "--all",
        "$WAKE_WITH",
    ]  # unbraced: split into words
    assert waking["Service.Type"] == ["oneshot"]
    assert waking["Install.WantedBy"] == [target]


@pytest.mark.parametrize("scope", SCOPES)
def test_every_service_of_a_scope_is_kept_from_the_same_things(scope: str) -> None:
    own = ("ExecStart", "Type", "Restart", "RestartSec", "RestartPreventExitStatus", "SuccessExitStatus")
    alike = {
        path.name: {k: v for k, v in read_unit(path).items() if k.startswith("Service.") and k.split(".")[1] not in own}
        for path in unit_paths(scope, "service")
    }
    first = alike["consolidator.service"]
    assert {"Service.NoNewPrivileges", "Service.SystemCallFilter", "Service.UMask"} <= set(first)
    assert all(settings == first for settings in alike.values())


def test_only_the_program_is_told_to_stop_since_it_stops_the_embedded_database_itself() -> None:
    for scope in SCOPES:
        assert all(read_unit(path)["Service.KillMode"] == ["process"] for path in unit_paths(scope, "service"))


def test_the_state_of_the_system_units_is_not_where_roots_own_databases_are() -> None:
    service = read_unit(SYSTEMD / "system" / "consolidator.service")
    assert service["Service.StateDirectory"] == ["consolidator/service"]
    assert "CONSOLIDATOR_HOME=%S/consolidator/service" in service["Service.Environment"]


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="no systemd-sysusers here")
def test_the_user_of_the_system_units_can_be_made(tmp_path: Path) -> None:
    command = ["systemd-sysusers", "--dry-run", f"--root={tmp_path}", str(SYSTEMD / "sysusers.conf")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    (user,) = read_unit(SYSTEMD / "system" / "consolidator.service")["Service.User"]
    assert f"u {user} " in (SYSTEMD / "sysusers.conf").read_text()
