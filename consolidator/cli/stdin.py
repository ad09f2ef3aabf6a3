"""Reads standard input line by line in a thread, while the event loop goes on."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from contextlib import suppress

PASTE_PAUSE = 0.03  # seconds; lines with a shorter pause between them were pasted, and are one message


class StdinLines:
    """The lines of standard input. On a terminal they may come at any time, also while an answer is streamed."""

    def __init__(self, descriptor: int = 0, *, is_terminal: bool | None = None) -> None:
        self._descriptor = descriptor
        self.is_terminal = os.isatty(descriptor) if is_terminal is None else is_terminal
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._returned: deque[str] = deque()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="typed", daemon=True).start()

    async def next(self) -> str | None:
        """Return the next line, or a pasted block as a whole; None at the end of the input, and from then on."""
        if self._returned:
            return self._returned.popleft()
        line = await self._queue.get()
        if line is None:
            self._queue.put_nowait(None)
            return None
        return await self._join_pasted(line) if self.is_terminal and not line.startswith("/") else line

    def put_back(self, line: str) -> None:
        """Return this line again at the next call."""
        self._returned.append(line)

    async def _join_pasted(self, block: str) -> str:
        try:
            while True:
                async with asyncio.timeout(PASTE_PAUSE):
                    line = await self._queue.get()
                if line is None or line.startswith("/"):
                    self._returned.extend([] if line is None else [line])
                    self._queue.put_nowait(None) if line is None else None
                    return block
                block += "\n" + line
        except TimeoutError:
            return block
        except asyncio.CancelledError:
            self._returned.append(block)
            raise

    def _read(self) -> None:
        """Read until the end, without Python's own buffer: its lock would block the exit of the process."""
        rest = b""
        with suppress(RuntimeError):  # the loop is closed
            while data := self._read_bytes():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._put_line(line)
            if rest:
                self._put_line(rest)
            self._loop.call_soon_threadsafe(self._queue.put_nowait, None)

    def _read_bytes(self) -> bytes:
        try:
            return os.read(self._descriptor, 65_536)
        except OSError:  # the terminal is gone
            return b""

    def _put_line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self._loop.call_soon_threadsafe(self._queue.put_nowait, text)
