"""What a person types, line by line, at any time: read beside the event loop, which goes on meanwhile."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from contextlib import suppress

PASTED = 0.03  # seconds; lines that come closer together were pasted, and are one message


class Typed:
    """The lines of standard input. `live` where a person types them: they may come while an answer is on its way."""

    def __init__(self, descriptor: int = 0, *, live: bool | None = None) -> None:
        self._descriptor = descriptor
        self.live = os.isatty(descriptor) if live is None else live
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._kept: deque[str] = deque()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="typed", daemon=True).start()

    async def next(self) -> str | None:
        """Return the next line, a pasted block as a whole; None at the end, and from then on."""
        if self._kept:
            return self._kept.popleft()
        line = await self._queue.get()
        if line is None:
            self._queue.put_nowait(None)
            return None
        return await self._whole(line) if self.live and not line.startswith("/") else line

    def keep(self, line: str) -> None:
        """Give a line back, to be returned later."""
        self._kept.append(line)

    async def _whole(self, block: str) -> str:
        try:
            while True:
                async with asyncio.timeout(PASTED):
                    line = await self._queue.get()
                if line is None or line.startswith("/"):
                    self._kept.extend([] if line is None else [line])
                    self._queue.put_nowait(None) if line is None else None
                    return block
                block += "\n" + line
        except TimeoutError:
            return block
        except asyncio.CancelledError:
            self._kept.append(block)
            raise

    def _read(self) -> None:
        """Read until the end, past Python's own buffer: its lock would be in the way of an exit."""
        rest = b""
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            while data := self._more():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._put(line)
            if rest:
                self._put(rest)
            self._loop.call_soon_threadsafe(self._queue.put_nowait, None)

    def _more(self) -> bytes:
        try:
            return os.read(self._descriptor, 65_536)
        except OSError:  # the terminal is gone
            return b""

    def _put(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self._loop.call_soon_threadsafe(self._queue.put_nowait, text)
