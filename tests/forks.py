"""Starts the command line as a fork of a process that has loaded it: to load it takes longer than most of its commands.

What is started is a process of its own all the same, with its own environment, folder and pipes, which tests wait for,
signal and kill. This module is also the process that forks, and, for clients that start a server by its command
(`forked`), the small program that asks for a fork and stands for it. Hence it imports nothing outside of Python.
"""

from __future__ import annotations

import array
import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any

_PRELOADED = (
    "consolidator.api.app",
    "consolidator.cli.app",
    "consolidator.integrations.proxy",
    "consolidator.jobs.scheduler",
    "consolidator.mcp_server",
    "consolidator.ui.app",
)


class Fork:
    """A forked command, with what tests use of `subprocess.Popen`; its pipes are of text."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        cwd: Path | None = None,
        prepare: str = "",
        stdout: IO[Any] | int = subprocess.PIPE,
        stderr: IO[Any] | int = subprocess.PIPE,
    ) -> None:
        """Start the command; `prepare` is Python code that it runs first."""
        self.args = list(arguments)
        self.returncode: int | None = None
        self.stdout, output = _open_pipe(stdout)
        self.stderr, errors = _open_pipe(stderr)
        with Path(os.devnull).open("rb") as nothing:
            request = {"arguments": self.args, "environment": dict(environment), "prepare": prepare}
            files = [nothing.fileno(), output, errors]
            self._report = _ask(fork_server(), request | {"cwd": str(cwd or Path.cwd())}, files)
        for pipe, file in ((self.stdout, output), (self.stderr, errors)):
            if pipe is not None:
                os.close(file)
        self.pid = int(self._report.readline())

    def poll(self) -> int | None:
        """Return the exit code, if the process has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process has ended; return its exit code."""
        if self.returncode is None:
            if timeout is not None and not select.select([self._report], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = int(self._report.readline())
            self._report.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both pipes to their ends, and wait for the process."""
        outputs = {pipe.fileno(): b"" for pipe in (self.stdout, self.stderr) if pipe is not None and not pipe.closed}
        numbers = [-1 if pipe is None or pipe.closed else pipe.fileno() for pipe in (self.stdout, self.stderr)]
        reading = set(outputs)
        while reading:
            ready, _, _ = select.select(list(reading), [], [], timeout)
            if not ready:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            for number in ready:
                part = os.read(number, 1 << 16)
                outputs[number] += part
                if not part:
                    reading.discard(number)
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        self.wait(timeout)
        first, second = (outputs.get(number, b"").decode() for number in numbers)
        return first, second

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Fork:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        if kind is not None:
            self.kill()
        self.wait()


def forked(*arguments: str) -> list[str]:
    """Return the program and arguments with which a client starts the command line as a fork."""
    return [sys.executable, "-S", "-E", __file__, "fork", fork_server(), *arguments]


@cache
def fork_server() -> str:
    """Start the process that forks, which ends with this one; return its address."""
    folder = tempfile.TemporaryDirectory(prefix="forks-")
    address = f"{folder.name}/socket"
    names = ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV", "HOME")
    # A fork has none of its parent's threads, so the parent starts none.
    environment = {name: os.environ[name] for name in names if name in os.environ} | {
        "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error",
    }  # fmt: skip
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.forks", "serve", str(listener.fileno())],
            pass_fds=[listener.fileno()], env=environment, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def end() -> None:
        process.communicate()  # it ends as its input does
        folder.cleanup()

    atexit.register(end)
    return address


def _open_pipe(target: IO[Any] | int) -> tuple[IO[str] | None, int]:
    """Return a pipe's end for reading and for writing; of a file only the latter."""
    if target != subprocess.PIPE:
        return None, target if isinstance(target, int) else target.fileno()
    reader, writer = os.pipe()
    return os.fdopen(reader, encoding="utf-8"), writer


def _ask(address: str, request: Mapping[str, Any], files: Sequence[int]) -> IO[str]:
    """Ask for a fork; return what tells its number, and once it has ended its exit code."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(address)
        message = json.dumps(request).encode() + b"\n"
        rights = array.array("i", files)
        asking.sendmsg([message[:1]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        asking.sendall(message[1:])
        return asking.makefile(encoding="ascii")


def _serve(listener: socket.socket) -> None:
    """Fork for each that asks, until the tests have ended."""
    for name in _PRELOADED:
        __import__(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    while sys.stdin.fileno() not in (ready := select.select([sys.stdin.fileno(), listener], [], [])[0]):
        assert ready
        asking, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _supervise(asking)
        asking.close()


def _supervise(asking: socket.socket) -> None:
    """Fork the command, and tell its number, and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    first, files, _, _ = socket.recv_fds(asking, 1, 3)
    with asking.makefile("rb") as reader:
        request = json.loads(first + reader.readline())
    child = os.fork()
    if child == 0:
        asking.close()
        _become(request, files)
    for file in files:
        os.close(file)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    asking.sendall(f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    asking.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: Mapping[str, Any], files: Sequence[int]) -> None:
    """Become the command."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    warnings.simplefilter("error" if os.environ.get("PYTHONWARNINGS") == "error" else "default")
    sys.argv = ["consolidator", *request["arguments"]]
    exec(request["prepare"])
    runpy.run_module("consolidator", run_name="__main__", alter_sys=True)
    sys.exit()


def _stand_for_fork(address: str, arguments: Sequence[str]) -> None:
    """Ask for a fork with this process's pipes, and end as it does."""
    request = {"arguments": arguments, "environment": dict(os.environ), "prepare": "", "cwd": str(Path.cwd())}
    with _ask(address, request, [0, 1, 2]) as report:
        pid = int(report.readline())
        for number in (0, 1):
            os.close(number)
        signal.signal(signal.SIGTERM, lambda number, _: os.kill(pid, number))
        code = int(report.readline())
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "fork":
        _stand_for_fork(sys.argv[2], sys.argv[3:])
    with socket.socket(fileno=int(sys.argv[2])) as _listener:
        _serve(_listener)
