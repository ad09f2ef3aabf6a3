"""The embedded PostgreSQL server of a home: started or joined, shared by processes, stopped after its last user.

A user holds the `users` lock shared, which the kernel releases if it dies. Root's servers run as another account: see
`cluster` for where their data is.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path

from consolidator.database.embedded import binaries, cluster, keeper_process, startup, unavailable
from consolidator.database.embedded.binaries import Binaries
from consolidator.database.embedded.cluster import Cluster
from consolidator.database.embedded.file_locks import ServerLocks
from consolidator.database.embedded.startup import Postmaster
from consolidator.database.roles import READER, WRITER
from consolidator.errors import DatabaseUnavailable


class EmbeddedServer:
    """One use of a home's server, from `start` to `stop`.

    A home that is removed and created again gets a new identity, and never joins the old cluster. Root's old cluster
    then stays under /var/lib/consolidator/clusters, and `info` lists it as orphaned; that of a temporary home goes when
    another cluster is made.
    """

    dsn: str  # as the owner, a superuser: for upgrades, backups and what the writer may not do

    def __init__(
        self, home: Cluster, programs: Binaries, locks: ServerLocks, running: tuple[Postmaster, str, str]
    ) -> None:
        self._cluster = home
        self._programs = programs
        self._locks = locks
        self._server, self.dsn, self._version = running
        self.writer_dsn = startup.role_dsn(home, self._server, WRITER)
        self.reader_dsn = startup.role_dsn(home, self._server, READER)
        self._mutex = threading.Lock()  # flock does not exclude threads that share a descriptor

    @classmethod
    async def start(cls, home: Path, postgres_bin: Path | None = None) -> EmbeddedServer:
        """Join the running server of this home, or start one, with the programs in `postgres_bin` if it is given.

        Raises DatabaseUnavailable, which says what is wrong and what to do about it, and UsageError for programs that
        will not do.
        """
        joining = asyncio.ensure_future(asyncio.to_thread(cls._start, home, postgres_bin))
        try:
            return await asyncio.shield(joining)
        except asyncio.CancelledError:
            (await joining)._locks.close()
            raise

    async def restart(self) -> EmbeddedServer:
        """Restart the server if it has died; return self, whose `dsn` may have changed."""
        await asyncio.to_thread(self._restart)
        return self

    async def stop(self) -> None:
        """End this use; if it was the last, the server has ended when this returns. A second call does nothing."""
        await asyncio.to_thread(self._stop, False)

    def stop_blocking(self) -> None:
        """`stop` for a process that is ending, in which no thread can be started any more."""
        self._stop(False)

    async def delete(self) -> bool:
        """Stop, and delete the cluster with all its data if nobody else uses it; return whether it was deleted."""
        return await asyncio.to_thread(self._stop, True)

    def info(self) -> dict[str, str]:
        """Return facts about the server for an operator."""
        facts = {
            "server": "embedded PostgreSQL",
            "version": self._version,
            "home": str(self._cluster.home),
            "data directory": str(self._cluster.data),
            "settings": str(self._cluster.data / "postgresql.conf"),
            "socket directory": str(self._server.socket),
            "log": str(self._cluster.log_path),
            "password in": str(self._cluster.state_dir / "cluster.json"),
            "passwords of the writer and reader in": str(self._cluster.state_dir / "roles.json"),
            "binaries": str(self._programs.install),
            "pid": str(self._server.process.pid),
            "owner": str(self._cluster.owner),
        }
        if orphans := cluster.list_orphans():
            facts["orphaned clusters"] = ", ".join(str(path) for path in orphans)
        return facts

    @classmethod
    def _start(cls, home: Path, postgres_bin: Path | None) -> EmbeddedServer:
        programs = binaries.locate() if postgres_bin is None else binaries.locate_named(postgres_bin)
        home = cluster.prepare_home(home)
        try:
            locks = ServerLocks.open(cluster.state_dir_of(home))
        except OSError as error:
            raise unavailable.from_os_error("lock the database", home, error) from error
        try:
            locks.users.acquire_shared()
            if not (cluster.state_dir_of(home) / "cluster.json").exists():
                _remove_abandoned()
            prepared = cluster.prepare_cluster(home, programs)
            server = cls(prepared, programs, locks, startup.ensure_running(prepared, programs, locks))
            if postgres_bin is not None:
                binaries.check_extension(server.dsn, programs)
            locks.starting.release()
        except BaseException:
            locks.close()  # also when interrupted: a lock that nobody closes would keep the server alive
            raise
        return server

    def _restart(self) -> None:
        with self._mutex:
            if not (self._locks.starting.is_current() and self._locks.users.is_current()):
                raise DatabaseUnavailable(
                    f"{self._cluster.home} was removed, or its server stopped, while this process used it: start again"
                )
            with self._locks.starting.hold_exclusive():
                self._server, self.dsn, self._version = startup.ensure_running(
                    self._cluster, self._programs, self._locks
                )
                self.writer_dsn = startup.role_dsn(self._cluster, self._server, WRITER)
                self.reader_dsn = startup.role_dsn(self._cluster, self._server, READER)

    def _stop(self, delete: bool) -> bool:
        with self._mutex:
            if self._locks.starting.fd < 0:
                return False
            try:
                with self._locks.starting.hold_exclusive():
                    return self._stop_if_last(delete)
            finally:
                self._locks.close()

    def _stop_if_last(self, delete: bool) -> bool:
        if not self._locks.starting.is_current() or not self._is_last():
            self._locks.users.release()
            return False  # others still use it; or the home is gone, and the keeper stops the server
        server = startup.find_server(self._cluster)
        if server is not None:
            keeper_process.stop_server(server.process)
        startup.wait_keeper_ended(self._cluster)
        if delete:
            cluster.delete_cluster(self._cluster)
        return delete

    def _is_last(self) -> bool:
        """Tell whether nobody else holds the users' lock, and if so take it exclusively."""
        # The keeper may take it in the moment of the upgrade, but then waits for `starting`, which this process holds.
        for _ in range(2):
            if self._locks.users.try_exclusive():
                return True
            self._locks.users.acquire_shared()
        return self._locks.users.try_exclusive()


def _remove_abandoned() -> None:
    """Remove clusters of temporary homes that are gone, as tests leave them that are killed, once no server runs."""
    for abandoned in cluster.list_abandoned():
        if startup.find_server(abandoned) is None:
            shutil.rmtree(abandoned.data.parent, ignore_errors=True)
