"""Bounds on what a credential may ask of this process, requests a second and open streams, and on all of them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

BODY_BYTES = 4 * 1024 * 1024
DROPPED_BYTES = 4 * BODY_BYTES  # of a request that is too large
WORKED_ON = 8  # requests at once
WAITING = 64  # requests that wait to be worked on
WAIT_SECONDS = 10.0  # for that
REQUEST_SECONDS = 110.0  # until a request is given up; a compaction waits for a model
_BURST_SECONDS = 2.0  # of requests that may come at once
_MAX_BUCKETS = 10_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


@dataclass(slots=True)
class RequestRates:
    """Token buckets, one for each credential: `per_second` requests in the long run, twice that at once."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict)

    def take(self, name: str) -> float:
        """Take a request's token; return 0, or after how many seconds there is one again."""
        now, size = self.clock(), max(1.0, self.per_second * _BURST_SECONDS)
        bucket = self._buckets.pop(name, None) or _Bucket(size, now)
        bucket.tokens = min(size, bucket.tokens + (now - bucket.filled_at) * self.per_second)
        bucket.filled_at = now
        self._buckets[name] = bucket
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return 0.0
        return (1 - bucket.tokens) / self.per_second


@dataclass(slots=True)
class OpenStreams:
    """Counts the open streams of each credential."""

    most: int  # of one credential
    _open: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def opened(self, name: str) -> Iterator[bool]:
        """Count a stream while it is open; yield False, and count nothing, where there are too many."""
        if self._open.get(name, 0) >= self.most:
            yield False
            return
        self._open[name] = self._open.get(name, 0) + 1
        try:
            yield True
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]
