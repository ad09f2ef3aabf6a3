"""A command group that also answers a query: `facts search WORDS`, or a phrase such as `facts "short answers"`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from consolidator.cli.commands import SEARCH
from consolidator.cli.lazy_group import describe_unknown_query
from consolidator.errors import UsageError


class QueryGroup(TyperGroup):
    """A group whose callback takes a query as its only argument.

    The query is what follows `search` or `--`, or one argument with a blank in it, which no command's name has. Any
    other word must be a command: a mistyped one must not end as a search that finds nothing.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Pass the first word to the command of that name, or take the words as a query. Raises UsageError."""
        if args and args[0] in self.commands:
            return super().parse_args(ctx, ["", *args])  # an empty query takes the argument's place
        is_query = args[:1] == [SEARCH] or "--" in args
        if args[:1] == [SEARCH]:
            args = args[1:]
        ctx.allow_interspersed_args = ctx.allow_extra_args = True
        super().parse_args(ctx, args)
        query = ctx.params["query"]
        words = [*filter(None, [query]), *ctx._protected_args, *ctx.args]
        if not is_query and words[:1] == [SEARCH]:  # options came before it
            words = words[1:]
        elif words and not is_query and not _is_phrase(words[0]) and not ctx.resilient_parsing:
            raise UsageError(self._describe_unknown(ctx.command_path, words))
        ctx.params["query"] = " ".join(words) or None
        ctx._protected_args, ctx.args = [], []
        return []

    def _describe_unknown(self, program: str, words: list[str]) -> str:
        if words[0] in self.commands:
            return f"the command comes first: `{program} {words[0]} ...`, then its options"
        return describe_unknown_query(program, words, [*self.commands, SEARCH])


def _is_phrase(word: str) -> bool:
    return len(word.split()) > 1
