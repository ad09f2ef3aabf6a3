"""A command group that also takes a query: its first word is either one of its commands or the start of a query."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class QueryGroup(TyperGroup):
    """A group whose callback takes a query as its only argument. Several words are one query.

    `--` goes before a query that is the name of a command.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Pass the first word to the command of that name; if there is none, the words are the query."""
        if args and args[0] in self.commands:
            return super().parse_args(ctx, ["", *args])  # an empty query takes the argument's place
        ctx.allow_interspersed_args = ctx.allow_extra_args = True
        super().parse_args(ctx, args)
        more = [*ctx._protected_args, *ctx.args]
        if more:
            ctx.params["query"] = " ".join(filter(None, [ctx.params["query"], *more]))
            ctx._protected_args, ctx.args = [], []
        return []
