"""Starts a cluster's server, or joins the running one; the caller holds the `starting` lock throughout.

First starts, joins and restarts all go through `ensure_running`. A running server is told from any other process that
reuses its pid.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from consolidator.database.embedded import keeper_process, sockets, unavailable
from consolidator.database.embedded.binaries import Binaries
from consolidator.database.embedded.cluster import USER, Cluster, environment, role_passwords, save_role_passwords
from consolidator.database.embedded.file_locks import FileLock, ServerLocks
from consolidator.database.roles import READER, WRITER, create_login
from consolidator.errors import DatabaseUnavailable


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A server that is running, starting or stopping."""

    process: psutil.Process
    status: str  # starting, stopping, ready
    socket: Path | None  # its directory; None until it has one


def find_server(cluster: Cluster) -> Postmaster | None:
    """Return the server of a cluster if it is alive."""
    lines = _read_lock_file(cluster.data)
    if len(lines) < 2 or not lines[0].isdigit():
        return None
    directory = Path(lines[1])
    if directory.exists() and not directory.samefile(cluster.data):
        return None  # the file is part of a copy of another home
    process = _find_process(int(lines[0]), lines[1], cluster.owner.uid)
    if process is None:
        return None
    socket = Path(lines[4]) if len(lines) > 4 and lines[4] else None
    return Postmaster(process, lines[7].strip() if len(lines) > 7 else "starting", socket)


def remove_stale_lock_file(cluster: Cluster) -> None:
    """Remove a dead server's lock file if its pid was reused: PostgreSQL would take that process for a server.

    Call it only after `find_server` has found none. PostgreSQL itself handles a pid that is free; and if a backend has
    outlived its server, the shared memory it holds still keeps a second server out.
    """
    lines = _read_lock_file(cluster.data)
    if not lines or not lines[0].isdigit() or psutil.pid_exists(int(lines[0])):
        (cluster.data / "postmaster.pid").unlink(missing_ok=True)


def _read_lock_file(data: Path) -> list[str]:
    """Return postmaster.pid: pid, data directory, start, port, socket directory, address, memory, status."""
    try:
        fd = os.open(data / "postmaster.pid", os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return []
    with open(fd, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(16384).split("\n")


def _find_process(pid: int, data: str, uid: int) -> psutil.Process | None:
    """Return the process if it is a server of that data directory and user; psutil remembers its start time."""
    try:
        process = psutil.Process(pid)
        words = process.cmdline()  # empty for a zombie
        if not words or os.path.basename(words[0]) != "postgres" or process.uids().real != uid:
            return None
        return process if data in words else None
    except psutil.Error:
        return None


DATABASE = "consolidator"
MAX_ATTEMPTS = 5  # a server may stop or die while it is looked at
START_SECONDS = 900.0  # crash recovery of a large database may take minutes
SHUTDOWN_SECONDS = 20.0  # for backends of a killed server, and for its keeper, to end

# These override postgresql.conf.
ENFORCED_SETTINGS = {
    "listen_addresses": "",
    "port": str(sockets.PORT),
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "full_page_writes": "on",
    "logging_collector": "off",
    "log_destination": "stderr",
}


def ensure_running(cluster: Cluster, binaries: Binaries, locks: ServerLocks) -> tuple[Postmaster, str, str]:
    """Return the running server, a DSN, and the server's version; start the server if it is not running."""
    refusal = "it ended during the attempt to join it"
    for _ in range(MAX_ATTEMPTS):
        server = find_server(cluster)
        if server is not None and _is_usable(server, cluster):
            _ensure_keeper(server, cluster, locks)
            server = _wait_ready(cluster)
        else:
            if server is not None:  # unreachable: its socket is gone, or it is stopping
                keeper_process.stop_server(server.process)
            server = _start_server(cluster, binaries, locks)
        if server is None or server.socket is None:
            continue
        try:
            return server, dsn(cluster, server.socket), _ensure_database(cluster, server.socket)
        except psycopg.OperationalError as error:
            refusal = str(error).strip()
            if keeper_process.is_alive(server.process) and "password" in refusal:
                break
    raise DatabaseUnavailable(
        f"the embedded server of {cluster.home} runs and refuses connections: {refusal}; see {cluster.log_path}, "
        f"{unavailable.ELSEWHERE}"
    )


def dsn(cluster: Cluster, socket: Path, database: str = DATABASE) -> str:
    """Return the connection string of one of the cluster's databases."""
    return make_conninfo(
        host=str(socket), port=sockets.PORT, user=USER, password=cluster.password, dbname=database, connect_timeout=30
    )


def role_dsn(cluster: Cluster, server: Postmaster, role: str) -> str:
    """Return the connection string of one of the roles that are not the owner."""
    password = role_passwords(cluster)[role]
    return make_conninfo(dsn(cluster, server.socket or Path()), user=role, password=password)


def wait_keeper_ended(cluster: Cluster) -> None:
    """Wait until the keeper of an ended server has ended too."""
    lock = FileLock(cluster.state_dir / "keeper.lock")
    try:
        lock.acquire_exclusive(SHUTDOWN_SECONDS)
    finally:
        lock.close()


def _is_usable(server: Postmaster, cluster: Cluster) -> bool:
    if server.status == "stopping":
        return False
    if server.socket is None:
        return True  # still starting
    return sockets.is_private(server.socket, cluster.owner) and (
        server.status != "ready" or (server.socket / sockets.SOCKET).exists()
    )


def _start_server(cluster: Cluster, binaries: Binaries, locks: ServerLocks) -> Postmaster:
    """Start a keeper, which starts the server; return the server when it is ready."""
    deadline = time.monotonic() + SHUTDOWN_SECONDS
    keeper = FileLock(cluster.state_dir / "keeper.lock")
    try:
        while True:
            keeper.acquire_exclusive(SHUTDOWN_SECONDS)  # the keeper of an earlier server ends right after it
            remove_stale_lock_file(cluster)
            socket = sockets.ensure_directory(cluster.identity, cluster.home, cluster.owner)
            sockets.remove_leftovers(socket)
            begin = cluster.log_path.stat().st_size if cluster.log_path.exists() else 0
            _spawn_keeper(cluster, locks, keeper, socket, _command(cluster, binaries, socket))
            server = _wait_ready(cluster)
            if server is not None:
                return server
            output = unavailable.read_log_tail(cluster.log_path, begin)
            # Backends of a killed server hold its shared memory until they notice.
            if "is still in use" not in output or time.monotonic() > deadline:
                raise unavailable.from_output("start the embedded server", cluster.data, output)
            time.sleep(0.1)
            keeper = FileLock(keeper.path)
    except OSError as error:
        raise unavailable.from_os_error("start the embedded server", cluster.state_dir, error) from error
    finally:
        keeper.close()


def _ensure_keeper(server: Postmaster, cluster: Cluster, locks: ServerLocks) -> None:
    """Start a keeper for a running server whose own was killed."""
    keeper = FileLock(cluster.state_dir / "keeper.lock")
    try:
        if keeper.try_exclusive() and server.socket is not None:
            _spawn_keeper(cluster, locks, keeper, server.socket, [], adopt=server.process.pid)
    finally:
        keeper.close()


def _command(cluster: Cluster, binaries: Binaries, socket: Path) -> list[str]:
    data = sockets.shorten_path(cluster.data, socket, "data")
    settings = {**ENFORCED_SETTINGS, "unix_socket_directories": str(socket)}
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return [binaries.program("postgres"), "-D", str(data), *words]


def _spawn_keeper(
    cluster: Cluster, locks: ServerLocks, keeper: FileLock, socket: Path, command: list[str], adopt: int | None = None
) -> None:
    """Start a keeper that inherits its lock, which thus is held for as long as it lives."""
    order = {
        "command": command,
        "adopt": adopt,
        "starting": str(locks.starting.path),
        "users": str(locks.users.path),
        "log": str(cluster.log_path),
        "socket": str(socket),
        "environment": environment(),
        "credentials": cluster.owner.credentials(),
    }
    site = str(Path(psutil.__file__).resolve().parent.parent)  # the one package that a keeper needs
    log = os.open(cluster.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        subprocess.run(
            [sys.executable, "-P", keeper_process.__file__, json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(keeper.fd,),
            cwd="/",
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": site},
            start_new_session=True,  # a terminal's Ctrl-C must not reach it
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise unavailable.from_output("start the embedded server", cluster.state_dir, str(error)) from error
    finally:
        os.close(log)
        keeper.close()


def _wait_ready(cluster: Cluster) -> Postmaster | None:
    """Wait until the server is ready and return it; None if its keeper, which ends with it, has ended."""
    deadline = time.monotonic() + START_SECONDS
    keeper = FileLock(cluster.state_dir / "keeper.lock")
    try:
        while time.monotonic() < deadline:
            ended = keeper.try_exclusive()
            server = find_server(cluster)
            if server is not None and server.status == "ready":
                return server
            if ended:
                return None
            time.sleep(0.005)
    finally:
        keeper.close()
    raise DatabaseUnavailable(
        f"the embedded server in {cluster.data} has been starting for {START_SECONDS:.0f} s; "
        f"see {cluster.log_path}, and try again later"
    )


def _ensure_database(cluster: Cluster, socket: Path) -> str:
    """Connect once, create the database if it is missing, and return the server's version."""
    try:
        with psycopg.connect(dsn(cluster, socket), autocommit=True) as conn:
            _ensure_roles(conn, cluster)
            return conn.info.parameter_status("server_version") or "unknown"
    except psycopg.OperationalError as error:
        if f'database "{DATABASE}" does not exist' not in str(error):
            raise
    with psycopg.connect(dsn(cluster, socket, "template1"), autocommit=True) as conn:
        ours = sql.Identifier(DATABASE)
        try:  # renaming the unused one that initdb made is faster than creating another
            conn.execute(sql.SQL("alter database postgres rename to {}").format(ours))
        except psycopg.errors.InvalidCatalogName:
            conn.execute(sql.SQL("create database {}").format(ours))
        _ensure_roles(conn, cluster)
        return conn.info.parameter_status("server_version") or "unknown"


def _ensure_roles(conn: psycopg.Connection, cluster: Cluster) -> None:
    """Create the writer and the reader with passwords of their own, unless that was done before."""
    passwords = role_passwords(cluster)
    names = [WRITER, READER]
    existing = conn.execute("select from pg_roles where rolname = any(%s) and rolcanlogin", [names]).rowcount
    if existing == len(names) and passwords.keys() >= set(names):
        return
    passwords = {name: passwords.get(name) or secrets.token_urlsafe(32) for name in names}
    save_role_passwords(cluster, passwords)
    with conn.transaction():
        for name in names:
            create_login(conn, name, passwords[name])
