"""A terminal for tests: runs the command line in a pseudo-terminal, as a person would use it."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.support import PATIENCE


class Terminal:
    """A program in a pseudo-terminal."""

    def __init__(self, *words: str, environment: Mapping[str, str], cwd: Path | None = None) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "consolidator", *words],
            stdin=slave, stdout=slave, stderr=slave, close_fds=True, start_new_session=True,
            env={**environment, "TERM": "dumb", "COLUMNS": "200"}, cwd=cwd,
        )  # fmt: skip
        os.close(slave)
        self.output = ""
        self._read_to = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        os.close(self._master)

    def wait_for(self, text: str) -> str:
        """Wait until a text appears after the last one waited for; return the output before it."""
        deadline = time.monotonic() + PATIENCE
        while (position := self.output.find(text, self._read_to)) < 0:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} never came; what came is:\n{self.output}"
            try:
                came = os.read(self._master, 65_536)
            except OSError:  # the program has ended
                came = b""
            assert came, f"the program ended before {text!r} came:\n{self.output}"
            self.output += came.decode("utf-8", "replace").replace("\r\n", "\n")
        came_before, self._read_to = self.output[self._read_to : position], position + len(text)
        return came_before

    def type_line(self, line: str) -> None:
        """Type a line."""
        os.write(self._master, f"{line}\n".encode())

    def wait_for_exit(self) -> int:
        """Wait until the program ends; return its exit code."""
        while self.process.poll() is None:
            if select.select([self._master], [], [], 0.05)[0]:
                try:
                    self.output += os.read(self._master, 65_536).decode("utf-8", "replace").replace("\r\n", "\n")
                except OSError:
                    break
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """kill -9."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)
