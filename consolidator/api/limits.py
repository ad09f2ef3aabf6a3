"""Bounds on what a credential may ask of this process, requests a second and open streams, and on all of them."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

BODY_BYTES = 4 * 1024 * 1024
DROPPED_BYTES = 4 * BODY_BYTES  # of a request that was refused as too large
WORKED_ON = 8  # requests at once
PREVIEWS = 4  # of those, that wait for a model to try a steer
PREVIEWS_EACH = 2  # of those, of one credential
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
class WrongTokens:
    """Counts wrong tokens by address, and remembers which were right: a flood of others keeps nobody out."""

    per_minute: int
    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict)  # by address
    _right: OrderedDict[bytes, None] = field(default_factory=OrderedDict)  # hashes

    def wait(self, address: str, token: bytes) -> float:
        """Return 0 where a token is to be looked at, or after how many seconds it is."""
        bucket = self._buckets.get(address)
        if bucket is None or _hash(token) in self._right:
            return 0.0
        left = self._fill(bucket)
        return 0.0 if left >= 1 else (1 - left) * 60 / self.per_minute

    def add_right(self, token: bytes) -> None:
        """Remember a token that was right; those that came least recently are forgotten."""
        self._right[_hash(token)] = None
        self._right.move_to_end(_hash(token))
        if len(self._right) > _MAX_BUCKETS:
            self._right.popitem(last=False)

    def add_wrong(self, address: str) -> None:
        """Count a wrong token; the addresses that came least recently are forgotten."""
        bucket = self._buckets.pop(address, None) or _Bucket(self.per_minute, self.clock())
        bucket.tokens = max(0.0, self._fill(bucket) - 1)
        self._buckets[address] = bucket
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)

    def _fill(self, bucket: _Bucket) -> float:
        now = self.clock()
        bucket.tokens = min(self.per_minute, bucket.tokens + (now - bucket.filled_at) * self.per_minute / 60)
        bucket.filled_at = now
        return bucket.tokens


def _hash(token: bytes) -> bytes:
    return hashlib.blake2b(token, digest_size=16).digest()


@dataclass(slots=True)
class Places:
    """Counts what each credential has open at once, such as streams."""

    most: int  # of one credential
    most_in_all: int | None = None
    _open: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many are open."""
        return sum(self._open.values())

    @contextmanager
    def opened(self, name: str) -> Iterator[bool]:
        """Count one while it is open; yield False, and count nothing, where there are too many."""
        is_full = self.most_in_all is not None and self.count >= self.most_in_all
        if is_full or self._open.get(name, 0) >= self.most:
            yield False
            return
        self._open[name] = self._open.get(name, 0) + 1
        try:
            yield True
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]
