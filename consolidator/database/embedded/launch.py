"""Bringing a cluster's server up, and knowing that it is: the caller holds the `starting` lock throughout.

Whoever joins and whoever restarts comes through `ensure`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from consolidator.database.embedded import error_messages, keeper_process, postmaster, sockets
from consolidator.database.embedded.binaries import Binaries
from consolidator.database.embedded.cluster import USER, Cluster, environment
from consolidator.database.embedded.file_locks import FileLock, Locks
from consolidator.database.embedded.postmaster import Postmaster
from consolidator.errors import DatabaseUnavailable

DATABASE = "consolidator"
ROUNDS = 5  # a server may be on its way down, or die, while we look at it
START_SECONDS = 900.0  # recovery after a crash of a large database takes its time
GIVE_WAY_SECONDS = 20.0  # for backends of a killed server, and for its keeper, to go

# What must hold, whatever postgresql.conf says.
BINDING = {
    "listen_addresses": "",
    "port": str(sockets.PORT),
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "full_page_writes": "on",
    "logging_collector": "off",
    "log_destination": "stderr",
}


def ensure(cluster: Cluster, binaries: Binaries, locks: Locks) -> tuple[Postmaster, str, str]:
    """Return the running server, a DSN, and the server's version; start the server if it is not running."""
    refusal = "it ended while we were joining"
    for _ in range(ROUNDS):
        server = postmaster.find(cluster)
        if server is not None and _usable(server, cluster):
            _take_over(server, cluster, locks)
            server = _wait_ready(cluster)
        else:
            if server is not None:  # nobody can reach it: its socket is gone, or it is stopping already
                keeper_process.stop(server.process)
            server = _launch(cluster, binaries, locks)
        if server is None or server.socket is None:
            continue
        try:
            return server, dsn(cluster, server.socket), _welcome(cluster, server.socket)
        except psycopg.OperationalError as error:
            refusal = str(error).strip()
            if keeper_process.is_alive(server.process) and "password" in refusal:
                break
    raise DatabaseUnavailable(
        f"the embedded server of {cluster.home} runs and refuses us: {refusal}; see {cluster.log}, "
        f"{error_messages.ELSEWHERE}"
    )


def dsn(cluster: Cluster, socket: Path, database: str = DATABASE) -> str:
    """Return the connection string of one of the cluster's databases."""
    return make_conninfo(
        host=str(socket), port=sockets.PORT, user=USER, password=cluster.password, dbname=database, connect_timeout=30
    )


def wait_keeper_gone(cluster: Cluster, seconds: float = GIVE_WAY_SECONDS) -> None:
    """Wait until the keeper of a server that has ended has ended too."""
    lock = FileLock(cluster.keep / "keeper.lock")
    try:
        lock.exclusive(seconds)
    finally:
        lock.close()


def _usable(server: Postmaster, cluster: Cluster) -> bool:
    if server.status == "stopping":
        return False
    if server.socket is None:
        return True  # still starting
    return sockets.is_ours(server.socket, cluster.owner) and (
        server.status != "ready" or (server.socket / sockets.SOCKET).exists()
    )


def _launch(cluster: Cluster, binaries: Binaries, locks: Locks) -> Postmaster:
    """Start a keeper, and through it the server; return that when it is ready."""
    deadline = time.monotonic() + GIVE_WAY_SECONDS
    keeper = FileLock(cluster.keep / "keeper.lock")
    try:
        while True:
            keeper.exclusive(GIVE_WAY_SECONDS)  # an earlier server's keeper ends right after it
            postmaster.forget_recycled(cluster)
            socket = sockets.directory(cluster.identity, cluster.home, cluster.owner)
            sockets.sweep(socket)
            begin = cluster.log.stat().st_size if cluster.log.exists() else 0
            _spawn(cluster, locks, keeper, socket, _command(cluster, binaries, socket))
            server = _wait_ready(cluster)
            if server is not None:
                return server
            said = error_messages.tail(cluster.log, begin)
            # Backends of a server that was killed hold its memory until they notice.
            if "is still in use" not in said or time.monotonic() > deadline:
                raise error_messages.from_output("start the embedded server", cluster.data, said)
            time.sleep(0.1)
            keeper = FileLock(keeper.path)
    except OSError as error:
        raise error_messages.from_os_error("start the embedded server", cluster.keep, error) from error
    finally:
        keeper.close()


def _take_over(server: Postmaster, cluster: Cluster, locks: Locks) -> None:
    """Give a running server a keeper if its own has been killed."""
    keeper = FileLock(cluster.keep / "keeper.lock")
    try:
        if keeper.try_exclusive() and server.socket is not None:
            _spawn(cluster, locks, keeper, server.socket, [], adopt=server.process.pid)
    finally:
        keeper.close()


def _command(cluster: Cluster, binaries: Binaries, socket: Path) -> list[str]:
    data = sockets.shortened(cluster.data, socket, "data")
    settings = {**BINDING, "unix_socket_directories": str(socket)}
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return [binaries.program("postgres"), "-D", str(data), *words]


def _spawn(
    cluster: Cluster, locks: Locks, keeper: FileLock, socket: Path, command: list[str], adopt: int | None = None
) -> None:
    """Start a keeper that inherits its lock, which thus is held for as long as it lives."""
    order = {
        "command": command,
        "adopt": adopt,
        "starting": str(locks.starting.path),
        "users": str(locks.users.path),
        "log": str(cluster.log),
        "socket": str(socket),
        "environment": environment(),
        "credentials": cluster.owner.credentials(),
    }
    site = str(Path(psutil.__file__).resolve().parent.parent)  # the one package that a keeper needs
    log = os.open(cluster.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
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
            start_new_session=True,  # a terminal's Ctrl-C is for us
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise error_messages.from_output("start the embedded server", cluster.keep, str(error)) from error
    finally:
        os.close(log)
        keeper.close()


def _wait_ready(cluster: Cluster) -> Postmaster | None:
    """Wait until the server is ready and return it, or None where its keeper, which ends with it, has ended."""
    deadline = time.monotonic() + START_SECONDS
    keeper = FileLock(cluster.keep / "keeper.lock")
    try:
        while time.monotonic() < deadline:
            ended = keeper.try_exclusive()
            server = postmaster.find(cluster)
            if server is not None and server.status == "ready":
                return server
            if ended:
                return None
            time.sleep(0.005)
    finally:
        keeper.close()
    raise DatabaseUnavailable(
        f"the embedded server in {cluster.data} has been starting for {START_SECONDS:.0f} s; "
        f"see {cluster.log}, and try again later"
    )


def _welcome(cluster: Cluster, socket: Path) -> str:
    """Connect once, make our database if it is missing, and return the server's version."""
    try:
        with psycopg.connect(dsn(cluster, socket), autocommit=True) as conn:
            return conn.info.parameter_status("server_version") or "unknown"
    except psycopg.OperationalError as error:
        if f'database "{DATABASE}" does not exist' not in str(error):
            raise
    with psycopg.connect(dsn(cluster, socket, "template1"), autocommit=True) as conn:
        ours = sql.Identifier(DATABASE)
        try:  # initdb has made one that nobody uses; giving it our name is faster than making another
            conn.execute(sql.SQL("alter database postgres rename to {}").format(ours))
        except psycopg.errors.InvalidCatalogName:
            conn.execute(sql.SQL("create database {}").format(ours))
        return conn.info.parameter_status("server_version") or "unknown"
