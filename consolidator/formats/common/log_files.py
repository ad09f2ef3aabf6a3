"""Find log files on disk and open them, whatever else lies there: links, loops, pipes, devices, endless folders.

What cannot be read is kept when files are searched, so that reading it reports why.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MAX_FOLDERS = 100  # how deep folders are searched; deeper ones are reported
MAX_HOLES = 64 * 1024 * 1024  # bytes without data that a file may have: a crash leaves some, no log has more
_MAX_EXTENTS = 1000  # looked at in search of holes
_BUFFER = 128 * 1024
PACKED = ".zst"
_WINDOW_BITS = 26  # 64 MiB, which unpacking may keep
_MAX_RATIO = 1000  # of what a file holds to its size, beyond MAX_HOLES
_LINK = "a symbolic link is not followed; name it to import what it leads to"
_OTHER_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def find_files(path: Path, *suffixes: str) -> Iterator[Path]:
    """Yield `path` itself if it is a file, else the files below it with one of the suffixes, sorted.

    A link that is named itself is followed; one below it is not, and is yielded if it leads out of `path`. Such links,
    folders that are nested too deeply, and what cannot be accessed are yielded, so that reading them reports why.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):  # a broken link, or deleted meanwhile
        return
    except OSError:
        yield path
        return
    if stat.S_ISDIR(mode):
        yield from sorted(_search_folders(path, suffixes))
    else:
        yield Path(os.path.realpath(path)) if path.is_symlink() else path


def list_json_files(folder: Path) -> list[Path]:
    """Return the JSON files in a folder itself, sorted by name; nothing where there is no such folder."""
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    except (FileNotFoundError, NotADirectoryError):
        return []


def file_finder(
    *suffixes: str, keep: Callable[[Path], bool] = lambda _: True, order: Callable[[Path], Any] | None = None
) -> Callable[[Path], Iterator[Path]]:
    """Return the `files` of a format: those below a path that it would `keep`, or the one that is named."""

    def files(path: Path) -> Iterator[Path]:
        files = (file for file in find_files(path, *suffixes) if file == path or keep(file))
        yield from files if order is None else sorted(files, key=order)

    return files


def _search_folders(root: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files below a folder, and what reading should report; without recursion."""
    real_root = os.path.realpath(root)
    files: list[Path] = []
    folders = [(root, 0)]
    while folders:
        folder, depth = folders.pop()
        if depth > MAX_FOLDERS:
            files.append(folder)
            continue
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        if _is_worth_telling(entry, real_root, suffixes):
                            files.append(Path(folder, entry.name))
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append((Path(folder, entry.name), depth + 1))
                    elif entry.name.endswith(suffixes):
                        files.append(Path(folder, entry.name))
        except (FileNotFoundError, NotADirectoryError):  # deleted meanwhile
            pass
        except OSError:
            files.append(folder)
    return files


def _is_worth_telling(link: os.DirEntry[str], real_root: str, suffixes: tuple[str, ...]) -> bool:
    """Tell whether a link hides logs from a search: not if it is broken, or if its target is found by its own name."""
    try:
        target = os.path.realpath(link.path, strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # a loop, or no permission
        return link.name.endswith(suffixes)
    is_folder = os.path.isdir(target)
    if not is_folder and not link.name.endswith(suffixes):
        return False
    inside = os.path.commonpath((real_root, target)) == real_root
    return not (inside and (is_folder or target.endswith(suffixes)))


def is_below(path: Path, root: Path) -> bool:
    """Tell whether a file that was found below `root` still is: a folder between may have become a link."""
    if path == root or not os.path.isdir(root):
        return True  # it was named itself
    real_root = os.path.realpath(root)
    return os.path.commonpath((real_root, os.path.realpath(path.parent))) == real_root


def open_log(path: Path) -> io.BufferedReader:
    """Open a file to read it up to the size that it has now; a writer that appends without end does not hold a reader.

    One that its agent compressed reads as what it holds. Raises OSError for whatever is no ordinary file: nothing of a
    link, pipe, socket or device is opened or read.
    """
    _require_file(path, os.lstat(path).st_mode)
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    # It may have been replaced since it was looked at: by a link, or by a pipe that would be waited for.
    descriptor = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        state = os.fstat(descriptor)
        _require_file(path, state.st_mode)
        _refuse_holes(descriptor, state)
    except BaseException:
        os.close(descriptor)
        raise
    file = _SizedFile(descriptor, state.st_size)
    return io.BufferedReader(_UnpackedFile(file, state.st_size) if path.suffix == PACKED else file, _BUFFER)


def read_whole(path: Path, most: int) -> bytes | None:
    """Return the contents of a file; None if it is larger than `most` bytes."""
    with open_log(path) as file:
        size = most if path.suffix == PACKED else os.fstat(file.fileno()).st_size
        content = file.read(min(size, most) + 1)
    return None if len(content) > most else content


def _require_file(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode):
        reason = _LINK
    elif stat.S_ISDIR(mode):
        os.scandir(path).close()  # raises if it may not be searched
        reason = f"folders that are nested deeper than {MAX_FOLDERS} are not searched"
    else:
        reason = f"{_OTHER_KINDS.get(stat.S_IFMT(mode), 'something else')}, not a file"
    raise OSError(errno.EINVAL, reason, str(path))


def _refuse_holes(descriptor: int, state: os.stat_result) -> None:
    """Raise OSError for a sparse file: a terabyte of nothing takes no disk, but hours to read."""
    if not hasattr(os, "SEEK_HOLE") or state.st_size <= MAX_HOLES or state.st_blocks * 512 >= state.st_size:
        return  # a file that compression made small has no holes either, and is found below to have none
    position = holes = 0
    for _ in range(_MAX_EXTENTS):
        hole = os.lseek(descriptor, position, os.SEEK_HOLE)
        if hole >= state.st_size:
            break
        try:
            position = os.lseek(descriptor, hole, os.SEEK_DATA)
        except OSError:  # ENXIO: no data after it
            position = state.st_size
        holes += position - hole
        if holes > MAX_HOLES or position >= state.st_size:
            break
    else:
        holes = MAX_HOLES + 1
    if holes > MAX_HOLES:
        raise OSError(errno.EINVAL, f"{state.st_size} bytes that are mostly holes, not a log")
    os.lseek(descriptor, 0, os.SEEK_SET)


class _SizedFile(io.RawIOBase):
    """A file of which only the bytes up to a size are read; closes its descriptor."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._left = size

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; return the number of bytes, 0 at the end."""
        content = os.read(self._descriptor, min(len(buffer), self._left))
        buffer[: len(content)] = content
        self._left -= len(content)
        return len(content)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def close(self) -> None:
        """Close the descriptor."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class _UnpackedFile(io.RawIOBase):
    """What a compressed file holds: neither memory nor time is spent on it without end."""

    def __init__(self, packed: _SizedFile, size: int) -> None:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
        self._packed = packed
        self._left = MAX_HOLES + size * _MAX_RATIO
        self._file = zstd.ZstdFile(packed, options={zstd.DecompressionParameter.window_log_max: _WINDOW_BITS})
        self._errors = (zstd.ZstdError, EOFError)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Unpack into a buffer; return the number of bytes, 0 at the end."""
        try:
            count = int(self._file.readinto(buffer))
        except self._errors as error:
            raise OSError(errno.EINVAL, f"not compressed as its name says: {error}") from error
        self._left -= count
        if self._left < 0:
            raise OSError(errno.EINVAL, f"unpacks to more than {_MAX_RATIO} times its size, not a log")
        return count

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._packed.fileno()

    def close(self) -> None:
        """Close the descriptor."""
        self._packed.close()
        super().close()


def path_exists(path: Path) -> bool:
    """Tell whether a path exists; one that cannot be accessed counts as existing."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: an impossible name
        return False
    except OSError:
        return True
    return True
