"""Sends a text to the receivers that a person configured: by Apprise, or into a file. Addresses are secrets.

No error and no line of a log holds an address: a receiver is named by its place in the setting and its kind.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from consolidator.errors import UsageError

if TYPE_CHECKING:
    from apprise.plugins import NotifyBase

SEND_SECONDS = 60.0  # for all receivers, which are asked at the same time
RETRIES, RETRY_SECONDS = 2, 2.0
MAX_FILE = 1 << 20  # bytes of a file of digests; then it becomes FILE.1, in place of an older one
_FILE = "file:"
_UNKNOWN = "not an address that Apprise knows; see https://appriseit.com/services/"
_KIND = re.compile(r"([a-z][a-z0-9]{1,20})s?://", re.IGNORECASE)
# What these write may quote an address.
_LOGGERS = ("apprise", "urllib3", "requests", "requests_oauthlib", "oauthlib")


async def send_each(receivers: Sequence[SecretStr], title: str, body: str) -> list[str]:
    """Send a text to each receiver, each tried a few times; return what failed, a line for each."""
    sends = [_send_in_thread(secret.get_secret_value(), title, body) for secret in receivers]
    reasons = await asyncio.gather(*sends)
    return [
        f"receiver {number} ({_kind(secret.get_secret_value())}): {reason}"
        for number, (secret, reason) in enumerate(zip(receivers, reasons, strict=True), 1)
        if reason is not None
    ]


def check_each(receivers: Sequence[SecretStr]) -> list[str]:
    """Return what is wrong with receivers, a line for each, as far as can be told without sending anything."""
    wrong = []
    for number, secret in enumerate(receivers, 1):
        try:
            reason = _check(secret.get_secret_value())
        except UsageError as error:
            reason = str(error)
        if reason is not None:
            wrong.append(f"receiver {number} ({_kind(secret.get_secret_value())}): {reason}")
    return wrong


def _check(address: str) -> str | None:
    if not address.startswith(_FILE):
        return None if _load_apprise()(address) is not None else _UNKNOWN
    path = Path(address.removeprefix(_FILE)).expanduser()
    if path.is_dir():
        return "it is a directory"
    return None if os.access(path if path.exists() else path.parent, os.W_OK) else "it cannot be written"


async def _send_in_thread(address: str, title: str, body: str) -> str | None:
    """Send in a thread that no process waits for at its end; return why it failed, None if it did not."""
    loop, ended = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

    def work() -> None:
        try:
            if address.startswith(_FILE):
                reason = _append(Path(address.removeprefix(_FILE)).expanduser(), f"# {title}\n\n{body}\n")
            else:
                reason = _notify(address, title, body)
        except UsageError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - the edge: the message may quote the address
            reason = type(error).__name__
        try:
            loop.call_soon_threadsafe(_settle, ended, reason)
        except RuntimeError:  # the loop has ended meanwhile
            return

    threading.Thread(target=work, name="digest", daemon=True).start()
    try:
        return await asyncio.wait_for(ended, SEND_SECONDS)
    except TimeoutError:
        return f"no answer in {SEND_SECONDS:g} seconds"


def _settle(ended: asyncio.Future[str | None], reason: str | None) -> None:
    if not ended.done():
        ended.set_result(reason)


def _append(path: Path, text: str) -> str | None:
    """Append a text to a file that only its owner reads."""
    try:
        if path.exists() and path.stat().st_size + len(text) > MAX_FILE:
            path.replace(path.with_name(f"{path.name}.1"))
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "a") as file:
            file.write(text)
    except OSError as error:
        return error.strerror or type(error).__name__
    return None


def _load_apprise() -> Callable[[str], NotifyBase | None]:
    """Return what makes a receiver of an address that Apprise knows. Raises UsageError where it is not installed."""
    try:
        from apprise import Apprise, AppriseAsset
    except ImportError:
        raise UsageError("Apprise is not installed: `pip install 'consolidator[digest]'`") from None
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    asset = AppriseAsset(
        app_id="consolidator",
        app_desc="consolidator",
        app_url="",
        async_mode=False,
        service_timeout=0,  # the caller's is the bound
        default_service_retry=RETRIES,
        default_service_wait=RETRY_SECONDS,
        storage_mode="memory",
    )
    return lambda address: Apprise.instantiate(address, asset=asset)


def _notify(address: str, title: str, body: str) -> str | None:
    receiver = _load_apprise()(address)
    if receiver is None:
        return _UNKNOWN
    from apprise import Apprise, NotifyFormat, OverflowMode

    if "overflow=" not in address:
        receiver.overflow_mode = OverflowMode.SPLIT
    sender = Apprise(asset=receiver.asset)
    sender.add(receiver)
    sent = sender.notify(body=body, title=title, body_format=NotifyFormat.MARKDOWN)
    return None if sent else "it did not take the message"


def _kind(address: str) -> str:
    """Return the kind of an address, such as "slack"."""
    if address.startswith(_FILE):
        return "file"
    match = _KIND.match(address)
    return match[1].lower() if match else "unknown"
