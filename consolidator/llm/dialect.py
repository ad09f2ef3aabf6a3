"""Which options of the OpenAI protocol a server takes: all of them at first, less whatever it has refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

_JSON_MODES = ("schema", "object", "prose")  # from the strictest to none at all


@dataclass(frozen=True, slots=True)
class Dialect:
    """The options to send to a server."""

    json_mode: str = "schema"  # schema | object | prose: how a JSON answer is requested
    max_tokens_name: str = "max_completion_tokens"  # or max_tokens
    takes_temperature: bool = True
    takes_stream_options: bool = True  # which ask for the usage of a stream
    takes_cache_key: bool = False  # which says what questions begin alike; only OpenAI's own server is known to take it

    def without(self, refusal: str) -> Dialect | None:
        """Return the dialect without the option that a refusal is about; None if it is about none of them."""
        text = refusal.lower()
        if "max_completion_tokens" in text and self.max_tokens_name == "max_completion_tokens":
            return replace(self, max_tokens_name="max_tokens")
        if "stream_options" in text and self.takes_stream_options:
            return replace(self, takes_stream_options=False)
        if "temperature" in text and self.takes_temperature:
            return replace(self, takes_temperature=False)
        if "prompt_cache_key" in text and self.takes_cache_key:
            return replace(self, takes_cache_key=False)
        if self.json_mode != "prose" and any(
            word in text for word in ("response_format", "json_schema", "json_object")
        ):
            return replace(self, json_mode=_JSON_MODES[_JSON_MODES.index(self.json_mode) + 1])
        return None

    def intersect(self, other: Dialect) -> Dialect:
        """Return the options that both dialects have: concurrent requests may have met different refusals."""
        return Dialect(
            max(self.json_mode, other.json_mode, key=_JSON_MODES.index),
            self.max_tokens_name if self.max_tokens_name == other.max_tokens_name else "max_tokens",
            self.takes_temperature and other.takes_temperature,
            self.takes_stream_options and other.takes_stream_options,
            self.takes_cache_key and other.takes_cache_key,
        )
