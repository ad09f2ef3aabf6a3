"""A disk that fills while a process starts: each file that it writes first is named, and the exit code is 4."""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consolidator.database.embedded import cluster, sockets, startup
from consolidator.database.embedded.account import Account
from consolidator.database.embedded.binaries import Binaries
from consolidator.database.embedded.cluster import Cluster
from consolidator.database.embedded.file_locks import FileLock, ServerLocks
from consolidator.errors import ConsolidatorError, DiskFull, as_disk_full
from consolidator.service import credentials

PROGRAMS = Binaries(Path("/nonexistent"))


def no_space(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def start_server(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Start the server of a home whose cluster exists."""
    state = cluster.state_dir_of(home)
    state.mkdir(parents=True, exist_ok=True)
    made = Cluster(home, "0" * 32, "unused", state / "data", Account(os.geteuid(), os.getegid()))
    made.data.mkdir(exist_ok=True)
    socket = state / "socket"
    socket.mkdir(exist_ok=True)
    monkeypatch.setattr(sockets, "ensure_directory", lambda *_: socket)
    locks = ServerLocks(state)
    try:
        startup.ensure_running(made, PROGRAMS, locks)
    finally:
        locks.close()


def full_for(name: str, opener: Callable[..., int] = os.open) -> Callable[..., int]:
    """Return `os.open` for a disk that has no room for the file of a name."""

    def open_or_fail(path: Any, *arguments: Any, **options: Any) -> int:
        if os.fspath(path).endswith(name):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return opener(path, *arguments, **options)

    return open_or_fail


def fill_before_home(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(Path, "mkdir", no_space)
    cluster.prepare_home(home)


def fill_before_record(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(cluster, "_is_root", lambda: False)
    prepared = cluster.prepare_home(home)
    monkeypatch.setattr(tempfile, "mkstemp", no_space)
    cluster.prepare_cluster(prepared, PROGRAMS)


def fill_in_record(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(cluster, "_is_root", lambda: False)
    prepared = cluster.prepare_home(home)
    monkeypatch.setattr(os, "fsync", no_space)
    cluster.prepare_cluster(prepared, PROGRAMS)


def fill_before_server_log(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(os, "open", full_for("server.log"))
    start_server(monkeypatch, home)


def fill_before_keeper(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(FileLock, "acquire_exclusive", no_space)
    start_server(monkeypatch, home)


STARTS = {
    "the home": fill_before_home,
    "the record of the cluster": fill_before_record,
    "the middle of the record": fill_in_record,
    "the server's log": fill_before_server_log,
    "the keeper's lock": fill_before_keeper,
}


@pytest.mark.parametrize("what", STARTS)
def test_the_embedded_start_names_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str) -> None:
    with monkeypatch.context() as patch, pytest.raises(DiskFull, match="the disk is full; free at least") as caught:
        STARTS[what](patch, tmp_path / "home")
    assert caught.value.exit_code == 4
    assert str(tmp_path / "home") in str(caught.value)
    assert list(tmp_path.rglob("*.json*")) == [], "half a record is no record"


@pytest.mark.parametrize("what", ["mkstemp", "write", "link"])
def test_a_full_disk_at_the_first_token_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str) -> None:
    home = tmp_path / "home"
    with monkeypatch.context() as patch:
        if what == "mkstemp":
            patch.setattr(tempfile, "mkstemp", no_space)
        elif what == "write":
            patch.setattr(secrets, "token_urlsafe", no_space)  # within the block that writes
        else:
            patch.setattr(os, "link", no_space)
        with pytest.raises(ConsolidatorError, match="No space left") as caught:
            credentials.load_token(home)
    full = as_disk_full(caught.value)
    assert full is not None
    assert full.exit_code == 4
    assert str(home / "token") in str(caught.value)
    assert list(home.iterdir()) == [], "no half a token stays"
    assert credentials.load_token(home) == credentials.load_token(home) != ""
