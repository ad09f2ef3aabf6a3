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

    def remove(self, text: str | None) -> QueuedPrompt | None:
        """Remove the next (or the given) message, which was handed to the model; return it if it has no event yet."""
        index = self._next_index() if text is None else self._find_index(text)
        if index is None:
            return None
        message = self.waiting.pop(index)
        if message.recorded:
            return None
        self.handed_over.append(message.text)
        return message

    def record_attachment(self, text: str) -> bool:
        """Record that a queued message appeared as an attachment; return whether it needs an event."""
        text = text.strip()
        if text in self.handed_over:
            self.handed_over.remove(text)
            return False
        index = self._find_index(text)
        if index is not None:
            self.waiting[index].recorded = True
        return True

    def record_user_line(self, text: str) -> bool:
        """Record that a message appeared as a user line; return whether it needs an event."""
        text = text.strip()
        if text in self.handed_over:
            self.handed_over.remove(text)
            return False
        index = self._find_index(text)
        if index is not None:
            del self.waiting[index]
        return True

    def dequeue(self) -> None:
        """Remove the next message, which starts a turn: its user line becomes the event."""
        index = self._next_index()
        if index is not None:
            del self.waiting[index]

    def clear(self) -> None:
        """Remove all waiting messages: the person took them back into the input line."""
        self.waiting.clear()

    def forget_handed_over(self) -> None:
        """Forget the messages handed over: after the model's answer, the same text is a new message."""
        self.handed_over.clear()

    def _next_index(self) -> int | None:
        """Return the index of the next message: people's messages go before notifications."""
        typed_indexes = (
            index for index, message in enumerate(self.waiting) if not message.text.startswith("<task-notification>")
        )
        return next(typed_indexes, 0 if self.waiting else None)

    def _find_index(self, text: str) -> int | None:
        return next((index for index, message in enumerate(self.waiting) if message.text == text.strip()), None)
