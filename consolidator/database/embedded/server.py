"""The embedded PostgreSQL of a home: joined or started, shared by processes, gone after its last user.

A user is whoever holds the shared `users` lock, which the kernel takes back from the dead. Root's servers run as
another account: see `cluster` for where their data is.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from consolidator.database.embedded import binaries, cluster, error_messages, keeper_process, launch, postmaster
from consolidator.database.embedded.binaries import Binaries
from consolidator.database.embedded.cluster import Cluster
from consolidator.database.embedded.file_locks import Locks
from consolidator.database.embedded.postmaster import Postmaster
from consolidator.errors import DatabaseUnavailable


class EmbeddedServer:
    """One use of a home's server, from `start` to `stop`.

    A home that is removed takes its database with it: made anew it gets a new identity, and never joins the old
    cluster. Root's old cluster then stays under /var/lib/consolidator/clusters, and `info` names it as orphaned.
    """

    def __init__(self, home: Cluster, programs: Binaries, locks: Locks, found: tuple[Postmaster, str, str]) -> None:
        self._cluster = home
        self._programs = programs
        self._locks = locks
        self._server, self.dsn, self._version = found
        self._turn = threading.Lock()  # flock does not keep threads apart that share a descriptor

    @classmethod
    async def start(cls, home: Path) -> EmbeddedServer:
        """Join the running server of this home, or start one.

        Raises DatabaseUnavailable, which says what is in the way and what to do about it.
        """
        joining = asyncio.ensure_future(asyncio.to_thread(cls._start, home))
        try:
            return await asyncio.shield(joining)
        except asyncio.CancelledError:
            (await joining)._locks.close()
            raise

    async def restart(self) -> EmbeddedServer:
        """Bring the server back if it has died; return self, whose `dsn` may have changed."""
        await asyncio.to_thread(self._restart)
        return self

    async def stop(self) -> None:
        """Give up our use; if it was the last, the server has ended when this returns. Twice does nothing."""
        await asyncio.to_thread(self._stop, False)

    async def discard(self) -> bool:
        """Stop, and delete the cluster with everything in it if nobody else uses it; return whether it is deleted."""
        return await asyncio.to_thread(self._stop, True)

    def info(self) -> dict[str, str]:
        """Return what an operator wants to know of the server."""
        found = {
            "server": "embedded PostgreSQL",
            "version": self._version,
            "home": str(self._cluster.home),
            "data directory": str(self._cluster.data),
            "settings": str(self._cluster.data / "postgresql.conf"),
            "socket directory": str(self._server.socket),
            "log": str(self._cluster.log),
            "password in": str(self._cluster.keep / "cluster.json"),
            "binaries": str(self._programs.install),
            "pid": str(self._server.process.pid),
            "owner": str(self._cluster.owner),
        }
        if orphans := cluster.orphans():
            found["orphaned clusters"] = ", ".join(str(path) for path in orphans)
        return found

    @classmethod
    def _start(cls, home: Path) -> EmbeddedServer:
        programs = binaries.locate()
        home = cluster.prepare(home)
        try:
            locks = Locks.opened(cluster.keep_of(home))
        except OSError as error:
            raise error_messages.from_os_error("lock the database", home, error) from error
        try:
            locks.users.share()
            settled = cluster.prepare_cluster(home, programs)
            server = cls(settled, programs, locks, launch.ensure(settled, programs, locks))
            locks.starting.release()
        except BaseException:
            locks.close()  # also when interrupted: a lock that nobody answers for would keep the server alive
            raise
        return server

    def _restart(self) -> None:
        with self._turn:
            if not (self._locks.starting.is_current() and self._locks.users.is_current()):
                raise DatabaseUnavailable(
                    f"{self._cluster.home} was removed, or its server given up, while we were using it: start again"
                )
            with self._locks.starting.held():
                self._server, self.dsn, self._version = launch.ensure(self._cluster, self._programs, self._locks)

    def _stop(self, discard: bool) -> bool:
        with self._turn:
            if self._locks.starting.fd < 0:
                return False
            try:
                with self._locks.starting.held():
                    return self._leave(discard)
            finally:
                self._locks.close()

    def _leave(self, discard: bool) -> bool:
        if not self._locks.starting.is_current() or not self._is_last():
            self._locks.users.release()
            return False  # others go on; or the home is gone, and the keeper sees to the rest
        server = postmaster.find(self._cluster)
        if server is not None:
            keeper_process.stop(server.process)
        launch.wait_keeper_gone(self._cluster)
        if discard:
            cluster.discard(self._cluster)
        return discard

    def _is_last(self) -> bool:
        """Tell whether nobody else holds the users' lock, which then is ours alone."""
        # The keeper may take it for a moment when we loosen our share, but then waits for `starting`, which we hold.
        for _ in range(2):
            if self._locks.users.try_exclusive():
                return True
            self._locks.users.share()
        return self._locks.users.try_exclusive()
