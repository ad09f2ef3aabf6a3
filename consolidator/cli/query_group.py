"""A group of commands that can itself be asked: its first word is one of its commands, or else words to look for."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class QueryGroup(TyperGroup):
    """A group whose callback takes a query as its one argument; `--` goes before a query that is a command's name.

    Several words are one query.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give the first word to a command where there is one of that name, else to the query."""
        if args and args[0] in self.commands:
            return super().parse_args(ctx, ["", *args])  # an empty query takes the argument's place
        ctx.allow_interspersed_args = ctx.allow_extra_args = True
        super().parse_args(ctx, args)
        more = [*ctx._protected_args, *ctx.args]
        if more:
            ctx.params["query"] = " ".join(filter(None, [ctx.params["query"], *more]))
            ctx._protected_args, ctx.args = [], []
        return []
