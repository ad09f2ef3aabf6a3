"""Track messages typed while Claude Code worked: queued, then handed to the model, withdrawn, or sent later.

A message can appear in the log several times: in queue lines, as an attachment, as a user line. Which of them exist
depends on the version. Each message must become exactly one event.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class QueuedPrompt:
    """A waiting message; `recorded` is true once it has become an event."""

    text: str
    timestamp: object
    recorded: bool = False


@dataclass(slots=True)
class PromptQueue:
    """The waiting messages of one session, and those just handed to the model."""

    waiting: list[QueuedPrompt] = field(default_factory=list)
    handed_over: list[str] = field(default_factory=list)

    def enqueue(self, text: str, timestamp: object) -> None:
        """Add a typed message or a notification."""
        self.waiting.append(QueuedPrompt(text.strip(), timestamp))

    def take(self, text: str | None = None) -> QueuedPrompt | None:
        """Take out the message that says `text`, else the next: people's messages go before notifications."""
        typed = (place for place, message in enumerate(self.waiting) if not _is_notification(message))
        place = next(typed, 0 if self.waiting else None) if text is None else self._find(text)
        return None if place is None else self.waiting.pop(place)

    def hand_over(self, text: str | None) -> QueuedPrompt | None:
        """Take out the next (or the given) message, which the model is given; return it if it has no event yet."""
        message = self.take(text)
        if message is None or message.recorded:
            return None
        self.handed_over.append(message.text)
        return message

    def record(self, text: str, *, ends_waiting: bool) -> bool:
        """Record that a message appeared, as a line of its own or beside one; return whether it needs an event."""
        text = text.strip()
        if text in self.handed_over:
            self.handed_over.remove(text)
            return False
        place = self._find(text)
        if place is not None and ends_waiting:
            del self.waiting[place]
        elif place is not None:
            self.waiting[place].recorded = True
        return True

    def _find(self, text: str) -> int | None:
        return next((place for place, message in enumerate(self.waiting) if message.text == text.strip()), None)


def _is_notification(message: QueuedPrompt) -> bool:
    return message.text.startswith("<task-notification>")
