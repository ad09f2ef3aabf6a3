"""Keeps claw0's files of sessions: `transcripts/*.jsonl`, and `sessions.json` as their index. The log stays the truth.

A transcript is only appended to, line by line, so that it can be watched. What the index says of it may be behind, as
after a kill: what stands there is compared with the log on the way, and written anew where it differs.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from consolidator.database import Database
from consolidator.errors import NotFound, UsageError
from consolidator.formats import claw0
from consolidator.models.session import SessionRow
from consolidator.service.log.export import redact_event, writable_columns
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage, read_lineage

_PAGE = 200  # events in memory at once
_SWEEP_SECONDS = 60.0  # between two looks at all sessions: those that are erased, and those that a night has read
_SAVE_SECONDS = 5.0  # between two writes of the index, while sessions go on
_FOLDER, _MESSAGES = "transcripts", ('{"type":"user"', '{"type":"assistant"')


@dataclass(slots=True)
class _Transcript:
    """An entry of the index: claw0's fields, and how far the file is."""

    session_key: str
    session_id: str
    created_at: str
    updated_at: str
    transcript_file: str
    message_count: int = 0
    log_id: str = ""  # the session's id in the log, where `session_id` is that of the program that it came from
    seq: int | None = None  # the last event that is written; None: nothing is
    size: int = 0  # of the file, in bytes, with that event


class _Differs(Exception):
    """A transcript does not say what the log says."""


@dataclass(slots=True)
class Mirror:
    """The files of a folder. One process at a time keeps them."""

    database: Database
    folder: Path
    redacted: bool = True
    _index: dict[str, _Transcript] = field(default_factory=dict)  # by the session's id in the log
    _current: frozenset[str] = frozenset()  # ids of sessions that their keys name now

    @contextmanager
    def open(self) -> Iterator[Mirror]:
        """Take the folder, and read its index. Raises UsageError if another process keeps it, or it is no mirror."""
        try:
            (self.folder / _FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
            if (self.folder / _FOLDER).is_symlink():
                raise UsageError(f"cannot keep {self.folder}: its folder {_FOLDER} is a link")
            with os.fdopen(_open_own(self.folder / ".mirror.lock"), "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._index = self._read_index()
                yield self
        except BlockingIOError as error:
            raise UsageError(f"another process keeps {self.folder}") from error
        except OSError as error:
            raise UsageError(f"cannot keep {self.folder}: {error.strerror}") from error

    async def follow(self, seconds: float) -> None:
        """Keep the files up to date until cancelled."""
        loop = asyncio.get_running_loop()
        swept = saved = -_SWEEP_SECONDS
        is_new = False
        while True:
            is_sweep = loop.time() - swept >= _SWEEP_SECONDS
            swept = loop.time() if is_sweep else swept
            is_new = await self.update(everything=is_sweep, save=False) or is_new
            if is_new and loop.time() - saved >= _SAVE_SECONDS:
                self._save_index()
                is_new, saved = False, loop.time()
            await asyncio.sleep(seconds)

    async def update(self, *, everything: bool = True, save: bool = True) -> bool:
        """Write what is new; with `everything` also drop what was erased. Return whether anything was new."""
        async with self.database.connection() as conn:
            heads = await sessions.list_heads(conn, everything)
        is_new = False
        if everything:
            for session_id in [name for name in self._index if name not in heads]:
                (self.folder / _FOLDER / self._index.pop(session_id).transcript_file).unlink(missing_ok=True)
                is_new = True
        for session_id, head in heads.items():
            entry = self._index.get(session_id)
            if head and (entry is None or entry.seq != head or self._size(entry) != entry.size):
                with suppress(NotFound):  # erased meanwhile
                    await self._update_session(session_id)
                    is_new = True
        if everything or is_new:
            async with self.database.connection() as conn:
                current = frozenset(await sessions.list_current(conn))
            is_new, self._current = is_new or current != self._current, current
        if save and (is_new or not (self.folder / claw0.INDEX).exists()):
            self._save_index()
        return is_new

    def _size(self, entry: _Transcript) -> int:
        path = self.folder / _FOLDER / entry.transcript_file
        return path.stat().st_size if path.exists() else -1

    async def _update_session(self, session_id: str) -> None:
        async with self.database.connection() as conn:
            session = await sessions.get(conn, session_id)
        head = json.loads(next(iter(claw0.write(writable_columns(session, redacted=self.redacted), []))))
        key = head["key"]
        safe = "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in key).encode()[:100]
        name, now = f"{safe.decode(errors='ignore')}_{session.id}.jsonl", session.last_event_at.isoformat()
        fresh = _Transcript(key, head["id"], session.created_at.isoformat(), now, name, log_id=session.id)
        entry, path = self._index.get(session_id, fresh), self.folder / _FOLDER / name
        try:
            await self._append(session, replace(entry if self._size(entry) >= entry.size else fresh), path)
        except _Differs:
            path.unlink()
            await self._append(session, fresh, path)

    async def _append(self, session: SessionRow, entry: _Transcript, path: Path) -> None:
        """Append the lines of the events after the entry's; those that stand there already must be the same."""
        with os.fdopen(_open_own(path), "r+b") as file:
            file.seek(entry.size)
            async for seq, lines in self._lines(session, entry.seq):
                if entry.seq is None and lines:
                    entry.created_at = json.loads(lines[0]).get("created", entry.created_at)
                for line in lines:
                    text = line.encode("utf-8", "surrogatepass")
                    there = file.read(len(text))
                    if not text.startswith(there):
                        raise _Differs
                    file.write(text[len(there) :])
                    entry.size += len(text)
                    entry.message_count += line.startswith(_MESSAGES)
                file.flush()
                entry.seq = seq
            if file.read(1):
                raise _Differs
        self._index[session.id] = replace(entry, updated_at=session.last_event_at.isoformat())

    async def _lines(self, session: SessionRow, after: int | None) -> AsyncIterator[tuple[int, list[str]]]:
        """Yield the lines of a page of events, and its last event; a child is written with its whole past."""
        async with self.database.connection() as conn:
            lineage = await load_lineage(conn, session.id, session)
        seq, is_begun = lineage.readable_after if after is None else after, after is not None
        while seq < session.head:
            async with self.database.connection() as conn:
                page = await read_lineage(conn, lineage, after=seq, upto=session.head, limit=_PAGE)
            events = [redact_event(event) if self.redacted else event for event in page]
            lines = claw0.write(writable_columns(session, redacted=self.redacted), events)
            texts = [line for event in events for line in claw0.write_event(event)] if is_begun else list(lines)
            seq, is_begun = page[-1].seq if page else session.head, True
            yield seq, texts

    def _read_index(self) -> dict[str, _Transcript]:
        path = self.folder / claw0.INDEX
        if not path.exists():
            return {}
        try:
            entries = list(json.loads(path.read_bytes()).values())
            if any("seq" not in entry for entry in entries):
                raise TypeError("another program's index, whose transcripts the log may not know")
            transcripts = [_Transcript(**entry) for entry in entries]
        except (ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"{path} is not the index of a mirror of ours: choose another folder") from error
        return {
            entry.log_id: entry for entry in transcripts if Path(entry.transcript_file).name == entry.transcript_file
        }

    def _save_index(self) -> None:
        """Write the index whole: by key the session that it names now, or else the latest; the others by their ids."""
        entries: dict[str, dict[str, Any]] = {}
        ranked = ((entry.log_id in self._current, entry.updated_at, name) for name, entry in self._index.items())
        for entry in (self._index[name] for *_, name in sorted(ranked, reverse=True)):
            name = entry.session_id if entry.session_key in entries else entry.session_key
            entries[name] = asdict(entry)
        part = self.folder / f".{claw0.INDEX}.part"
        with os.fdopen(_open_own(part), "w", encoding="utf-8") as file:
            file.write(json.dumps(entries, ensure_ascii=True, indent=1))
            file.truncate()
        part.replace(self.folder / claw0.INDEX)


def _open_own(path: Path) -> int:
    """Open a file of the folder, or create it for its owner alone; a link in its place is refused."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
