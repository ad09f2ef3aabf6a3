"""A pooler that gives each transaction another session is refused at the start; one that keeps sessions works."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from consolidator.database.connections import open_database
from consolidator.errors import DatabaseError
from consolidator.settings import Settings
from consolidator.store.sessions import sessions
from tests.support import PATIENCE, free_port, run_cli

Mode = Literal["transaction", "session"]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
NO_SSL = (80877103, 80877104)  # codes of requests to encrypt
PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


@dataclass
class SmallPooler:
    """Passes messages on between clients and server sessions; in transaction mode each transaction to another."""

    dsn: str
    mode: Mode
    free: list[Streams] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)  # to clients and servers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client: its login goes to a server session of its own, which is then everybody's."""
        self.writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            startup = await self._read_startup(reader, writer)
            server = await self._connect()
            self.writers.append(server[1])
            server[1].write(startup)
            while await self._pass_answer(server, writer) != b"I":
                server[1].write(await self._read_message(reader))
            self.free.append(server)
            while (message := await self._read_message(reader))[:1] != b"X":
                used = self.free.pop() if self.mode == "transaction" else server
                await self._pass_transaction(message, used, reader, writer)
                self.free.append(used)
        writer.close()

    async def _pass_transaction(
        self, message: bytes, server: Streams, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass on a client's messages, from the first one on, until its transaction has ended."""
        while True:
            server[1].write(message)
            if message[:1] in b"QS" and await self._pass_answer(server, writer) == b"I":
                return
            message = await self._read_message(reader)

    async def _read_startup(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        while True:
            head = await reader.readexactly(8)
            size, code = struct.unpack("!ii", head)
            if code not in NO_SSL:
                return head + await reader.readexactly(size - 8)
            writer.write(b"N")

    async def _connect(self) -> Streams:
        address = conninfo_to_dict(self.dsn)
        host, port = str(address["host"]), int(str(address.get("port") or 5432))
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)

    async def _read_message(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readexactly(5)
        return head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)

    async def _pass_answer(self, server: Streams, writer: asyncio.StreamWriter) -> bytes:
        """Pass on what the server says until it waits for the client; return the state of its transaction."""
        while True:
            message = await self._read_message(server[0])
            if message[:1] == b"K":  # the key to cancel, with the number of its process: a pooler makes up its own
                message = message[:5] + struct.pack("!i", 1) + message[9:]
            writer.write(message)
            if message[:1] == b"Z":
                return message[5:6]
            if message[:1] == b"R" and message[5:9] not in (b"\0\0\0\0", b"\0\0\0\x0c"):
                return b""  # it waits for a password


@asynccontextmanager
async def open_pooler(dsn: str, mode: Mode) -> AsyncIterator[str]:
    """Yield the address of a small pooler in front of a database."""
    pooler = SmallPooler(dsn, mode)
    server = await asyncio.start_server(pooler.serve, "127.0.0.1", 0)
    try:
        yield make_conninfo(dsn, host="127.0.0.1", port=server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for writer in pooler.writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@contextmanager
def open_pgbouncer(dsn: str, mode: Mode, *, size: int = 8) -> Iterator[str]:
    """Yield the address of a PgBouncer in front of a database; it runs as the user that may reach the server."""
    assert PGBOUNCER is not None
    address = conninfo_to_dict(dsn)
    keys = ("host", "port", "user", "password", "dbname")
    server = " ".join(f"{key}={address[key]}" for key in keys if address.get(key))
    host = str(address["host"])
    user = Path(host).stat().st_uid if host.startswith("/") else os.getuid()
    with free_port() as port, tempfile.TemporaryDirectory() as folder:
        Path(folder, "users.txt").write_text(f'"{address["user"]}" ""\n')
        Path(folder, "pgbouncer.ini").write_text(
            f"[databases]\n{address['dbname']} = {server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
            f"unix_socket_dir =\nauth_type = trust\nauth_file = {folder}/users.txt\npool_mode = {mode}\n"
            f"default_pool_size = {size}\nignore_startup_parameters = extra_float_digits\nso_reuseport = 1\n"
        )
        Path(folder).chmod(0o755)
        process = subprocess.Popen([PGBOUNCER, f"{folder}/pgbouncer.ini"], user=user, stderr=subprocess.DEVNULL)
        try:
            pooled = make_conninfo(dsn, host="127.0.0.1", port=port, password="")
            deadline = time.monotonic() + PATIENCE
            while True:
                with suppress(psycopg.OperationalError):
                    psycopg.connect(pooled, connect_timeout=5).close()
                    break
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.skip("PgBouncer does not start here")
                time.sleep(0.1)
            yield pooled
        finally:
            process.terminate()
            process.wait()


async def test_a_pooler_in_transaction_mode_is_refused_in_one_line_that_says_what_to_use(
    dsn: str, environment: dict[str, str]
) -> None:
    async with open_pooler(dsn, "transaction") as address:
        for command in (["import", "claude-code", "."], ["run", "consolidation"], ["facts"]):
            variables = {**environment, "CONSOLIDATOR_DATABASE_URL": address}
            done = await asyncio.to_thread(run_cli, *command, environment=variables, code=4)
            assert "leads to a pooler in transaction mode" in done.stderr.replace("\n", " ")
            assert "Traceback" not in done.stderr
    with psycopg.connect(dsn) as conn:
        assert conn.execute("select count(*) from consolidator.session").fetchone() == (0,)


async def test_a_pooler_in_session_mode_works(dsn: str, tmp_path: Path) -> None:
    async with (
        open_pooler(dsn, "session") as address,
        open_database(Settings(home=tmp_path, database_url=address)) as database,
        database.connection() as conn,
    ):
        assert await sessions.list_ids(conn) == []


@pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed")
@pytest.mark.parametrize("size", [1, 8])
async def test_pgbouncer_is_known_by_what_it_does(dsn: str, tmp_path: Path, size: int) -> None:
    with (
        open_pgbouncer(dsn, "transaction", size=size) as address,
        pytest.raises(DatabaseError, match="leads to a pooler in transaction mode"),
    ):
        async with open_database(Settings(home=tmp_path, database_url=address)):
            pass
    if size > 1:
        with open_pgbouncer(dsn, "session", size=size) as address:
            async with (
                open_database(Settings(home=tmp_path, database_url=address)) as database,
                database.connection() as conn,
            ):
                assert await sessions.list_ids(conn) == []
