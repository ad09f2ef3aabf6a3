"""How much memory a process has had at most."""

from __future__ import annotations

import re
import resource
from pathlib import Path


def peak_megabytes() -> float:
    """Return the peak of this process's resident memory.

    Where the kernel tells it of the program alone: `getrusage` of a child begins with the peak of its parent.
    """
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(found[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
