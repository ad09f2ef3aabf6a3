"""Messages that a person typed while Claude Code worked: queued, then handed to the model, taken back, or sent later.

One message must become one event, whichever of its traces the version of the log keeps: the queue's own lines, an
attachment, or a user line.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Queued:
    """A message that waits; `told` once an event has been made of it."""

    text: str
    timestamp: object
    told: bool = False


@dataclass(slots=True)
class Queue:
    """The messages of one session that wait, and those just handed over."""

    waiting: list[Queued] = field(default_factory=list)
    handed: list[str] = field(default_factory=list)

    def enqueue(self, text: str, timestamp: object) -> None:
        """A message was typed, or a notification came in."""
        self.waiting.append(Queued(text.strip(), timestamp))

    def remove(self, text: str | None) -> Queued | None:
        """The next (or the named) message went to the model within its turn; return it if no event told it yet."""
        position = self._next() if text is None else self._find(text)
        if position is None:
            return None
        message = self.waiting.pop(position)
        if message.told:
            return None
        self.handed.append(message.text)
        return message

    def attached(self, text: str) -> bool:
        """A queued message stands in the log as an attachment; tell whether it is news."""
        text = text.strip()
        if text in self.handed:
            self.handed.remove(text)
            return False
        position = self._find(text)
        if position is not None:
            self.waiting[position].told = True
        return True

    def sent(self, text: str) -> bool:
        """A message stands in the log as a user line; tell whether it is news."""
        text = text.strip()
        if text in self.handed:
            self.handed.remove(text)
            return False
        position = self._find(text)
        if position is not None:
            del self.waiting[position]
        return True

    def dequeue(self) -> None:
        """The next message starts a turn: its user line will tell it."""
        position = self._next()
        if position is not None:
            del self.waiting[position]

    def take_back(self) -> None:
        """The person took all waiting messages back into the input line."""
        self.waiting.clear()

    def answered(self) -> None:
        """The model spoke: what comes now is no second trace of what was handed over before."""
        self.handed.clear()

    def _next(self) -> int | None:
        """Return the place of the message whose turn it is: people go before notifications."""
        typed = (n for n, message in enumerate(self.waiting) if not message.text.startswith("<task-notification>"))
        return next(typed, 0 if self.waiting else None)

    def _find(self, text: str) -> int | None:
        return next((n for n, message in enumerate(self.waiting) if message.text == text.strip()), None)
