"""Keep the calls that were made and have no result yet, with the values they were given."""

from __future__ import annotations

from collections.abc import Mapping, Set

from consolidator.memory.calls.call_pairing import MAX_PENDING

HashedArguments = Mapping[str, list[int]]  # path -> salted hashes of its values


class OpenCalls:
    """The calls under way, by their index in the session; as many as a session's results are waited for."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[str, HashedArguments]] = {}  # symbol and arguments
        self._values: dict[tuple[str, str], dict[int, int]] = {}  # symbol and path -> value -> how often it is given

    def __contains__(self, index: int) -> bool:
        return index in self._calls

    def open(self, index: int, symbol: str, arguments: HashedArguments) -> None:
        """Add a call that is made."""
        self._calls[index] = (symbol, arguments)
        for path, column in arguments.items():
            values = self._values.setdefault((symbol, path), {})
            for value in column:
                values[value] = values.get(value, 0) + 1
        if len(self._calls) > MAX_PENDING:
            self.close(next(iter(self._calls)))

    def close(self, index: int) -> HashedArguments | None:
        """Remove a call that has its result; return its arguments, or None if it was not open."""
        if index not in self._calls:
            return None
        symbol, arguments = self._calls.pop(index)
        for path, column in arguments.items():
            values = self._values[symbol, path]
            for value in column:
                values[value] -= 1
                if not values[value]:
                    del values[value]
            if not values:
                del self._values[symbol, path]
        return arguments

    def values(self, symbol: str, path: str) -> Set[int]:
        """Return the values that an argument has in the calls under way."""
        return self._values.get((symbol, path), {}).keys()
