"""Whatever lies in a folder of logs: it is searched to its end, and each thing that is no log is told in one line."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from consolidator.formats.common.log_files import MAX_FOLDERS, find_files, is_below, open_log, read_whole
from consolidator.formats.registry import recognise_format


@contextmanager
def nested_folders(folder: Path, depth: int) -> Iterator[Path]:
    """Make folders in one another, more than a path's length allows to name at once; give the path of the last.

    They are removed afterwards: pytest removes the folders of earlier runs by recursion, which ends at 1,000.
    """
    folder.mkdir(exist_ok=True)
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        for _ in range(depth):
            os.mkdir("d", dir_fd=descriptor)
            inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        os.close(descriptor)
        yield Path(folder, *["d"] * depth)
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def why_not(path: Path) -> str:
    """Return why a file cannot be opened."""
    with pytest.raises(OSError) as refusal:
        open_log(path).close()
    return str(refusal.value.strerror)


@pytest.mark.parametrize("depth", [MAX_FOLDERS + 1, 300, 1_100, 2_500])
def test_folders_in_folders_are_told_once_and_the_others_are_searched(tmp_path: Path, depth: int) -> None:
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "a.jsonl").write_text("{}")
    with nested_folders(tmp_path / "deep", depth):
        *others, log = find_files(tmp_path, ".jsonl")
        assert log == tmp_path / "z" / "a.jsonl"
        (too_deep,) = others
        assert why_not(too_deep) == f"folders that are nested deeper than {MAX_FOLDERS} are not searched"


def test_the_deepest_folder_that_is_searched(tmp_path: Path) -> None:
    with nested_folders(tmp_path / "deep", MAX_FOLDERS - 1) as deepest:
        log = deepest / "a.jsonl"
        log.write_text("{}")
        assert list(find_files(tmp_path, ".jsonl")) == [log]


OUTSIDE, INSIDE = "a symbolic link is not followed; name it to import what it leads to", None
LINKS: dict[str, tuple[str, str, str | None]] = {  # the link's name and target, and what is told
    "to a file outside": ("l.jsonl", "../outside/secret.jsonl", OUTSIDE),
    "to a file outside, absolute": ("l.jsonl", "/etc/passwd", OUTSIDE),
    "to a folder outside": ("folder", "../outside", OUTSIDE),
    "to the folder above": ("up", "..", OUTSIDE),
    "to the root": ("root", "/", OUTSIDE),
    "to a link that leads outside": ("m.jsonl", "l2.jsonl", OUTSIDE),
    "to itself": ("self.jsonl", "self.jsonl", OUTSIDE),
    "to a folder whose name begins like ours": ("n.jsonl", "../logs-of-others/a.jsonl", OUTSIDE),
    "to a device": ("zero.jsonl", "/dev/zero", OUTSIDE),
    "to the memory of this process": ("mem.jsonl", "/proc/self/mem", OUTSIDE),
    "to a file inside that is no log by its name": ("k.jsonl", "data.bin", OUTSIDE),
    "to a log inside, which is found by its own name": ("k.jsonl", "a.jsonl", INSIDE),
    "to our own folder": ("again", ".", INSIDE),
    "to nothing": ("gone.jsonl", "nowhere", INSIDE),
    "to something else outside, without a log's name": ("python", "/bin/sh", INSIDE),
}


@pytest.mark.parametrize("what", LINKS)
def test_a_link_below_a_folder_is_not_followed(tmp_path: Path, what: str) -> None:
    name, target, told = LINKS[what]
    for folder in ("logs", "outside", "logs-of-others"):
        (tmp_path / folder).mkdir()
        for file in ("a.jsonl", "secret.jsonl", "data.bin"):
            if folder != "logs" or file != "secret.jsonl":
                (tmp_path / folder / file).write_text("{}")
    logs = tmp_path / "logs"
    if what == "to a link that leads outside":
        (logs / "l2.jsonl").symlink_to("../outside/secret.jsonl")
    (logs / name).symlink_to(target)
    found = set(find_files(logs, ".jsonl")) - {logs / "l2.jsonl"}
    assert found == {logs / "a.jsonl"} | ({logs / name} if told else set())
    if told:
        assert why_not(logs / name) == told
    else:
        with pytest.raises(OSError):
            open_log(logs / name)


def test_a_link_that_is_named_is_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    log = tmp_path / "there" / "a.jsonl"
    log.write_text("{}")
    (tmp_path / "file").symlink_to(log)
    (tmp_path / "folder").symlink_to(tmp_path / "there")
    assert list(find_files(tmp_path / "file", ".jsonl")) == [log]
    (found,) = find_files(tmp_path / "folder", ".jsonl")
    assert found == tmp_path / "folder" / "a.jsonl"
    assert is_below(found, tmp_path / "folder")
    assert open_log(found).read() == b"{}"


def make_pipe(path: Path) -> None:
    """Make a pipe that nobody writes to: opening it would wait for ever."""
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    """Make a socket's file."""
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        listener.bind(path.name)
    finally:
        os.chdir(here)
        listener.close()


OTHER_KINDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a pipe": (make_pipe, "a pipe, not a file"),
    "a socket": (make_socket, "a socket, not a file"),
    "a folder with a log's name": (lambda path: path.mkdir(), "folders"),
}


@pytest.mark.parametrize("what", OTHER_KINDS)
def test_what_is_no_file_is_neither_opened_nor_waited_for(tmp_path: Path, what: str) -> None:
    make, reason = OTHER_KINDS[what]
    make(tmp_path / "a.jsonl")
    found = list(find_files(tmp_path, ".jsonl"))
    assert found == ([] if reason == "folders" else [tmp_path / "a.jsonl"])
    assert why_not(tmp_path / "a.jsonl").startswith(reason)
    with pytest.raises(OSError):
        recognise_format(tmp_path / "a.jsonl")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/random", "/dev/null", "/dev/full", "/dev/tty"])
def test_a_device_that_is_named_is_told(device: str) -> None:
    if not Path(device).exists():
        pytest.skip("no such device here")
    assert list(find_files(Path(device), ".jsonl")) == [Path(device)]
    assert why_not(Path(device)) == "a device, not a file"


def test_a_file_that_was_replaced_since_it_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, log = tmp_path / "secret", tmp_path / "a.jsonl"
    secret.write_text("secret")
    log.write_text("{}")
    as_it_was = os.lstat(log)
    replacements: list[Callable[[Path], None]] = [lambda path: path.symlink_to(secret), make_pipe, Path.mkdir]
    for replace in replacements:
        log.unlink()
        replace(log)
        with monkeypatch.context() as patch:
            patch.setattr(os, "lstat", lambda path: as_it_was)
            with pytest.raises(OSError):
                open_log(log)


def test_a_folder_that_became_a_link_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "logs" / "d").symlink_to(tmp_path / "other")
    assert not is_below(tmp_path / "logs" / "d" / "a.jsonl", tmp_path / "logs")
    assert is_below(tmp_path / "logs" / "a.jsonl", tmp_path / "logs")
    assert is_below(tmp_path / "logs" / "a.jsonl", tmp_path / "logs" / "a.jsonl")


def test_a_terabyte_of_nothing_is_not_read_and_small_holes_are(tmp_path: Path) -> None:
    sparse, small, between = tmp_path / "sparse", tmp_path / "small", tmp_path / "between"
    for path, size in ((sparse, 2**40), (small, 1024 * 1024)):
        with path.open("wb") as file:
            file.write(b"{}\n")
            file.truncate(size)
    with between.open("wb") as file:
        for part in range(1, 5):
            file.seek(part * 2**30)
            file.write(b"{}\n")
    assert why_not(sparse) == f"{2**40} bytes that are mostly holes, not a log"
    assert why_not(between).endswith("mostly holes, not a log")
    assert open_log(small).read().rstrip(b"\0") == b"{}\n"
    assert read_whole(small, 10) is None
    assert read_whole(small, 1024 * 1024) is not None


def test_a_file_is_read_up_to_the_size_it_had(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\ntwo\nthr")
    with open_log(path) as file, path.open("ab") as writer:
        lines = []
        for line in file:
            lines.append(line)
            writer.write(b"more\n" * 1000)
            writer.flush()
    assert lines == [b"one\n", b"two\n", b"thr"]
    with open_log(path) as file:
        os.truncate(path, 4)
        assert file.read() == b"one\n"


def test_a_broken_name_or_a_deleted_folder_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "gone").mkdir()
    original = os.scandir

    def scan(path: Path) -> object:
        if Path(path).name == "gone":
            (tmp_path / "gone").rmdir()
        return original(path)

    monkeypatch.setattr(os, "scandir", scan)
    assert list(find_files(tmp_path, ".jsonl")) == [tmp_path / "a.jsonl"]
    assert list(find_files(tmp_path / "nowhere", ".jsonl")) == []
