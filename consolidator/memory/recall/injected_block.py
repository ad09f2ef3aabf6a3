"""Writes what a hook puts into an agent's context: a fenced block within a budget of tokens, with citations.

The fence is recall's, so that the nights do not learn from what memory itself said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consolidator.memory.recall.block import RecallItem, estimate_tokens
from consolidator.memory.text.recall_markers import RECALL_BEGIN, RECALL_END


@dataclass(frozen=True, slots=True)
class Section:
    """Lines of a block under a title; a section without a title has only its lines."""

    title: str
    items: Sequence[RecallItem]


@dataclass(frozen=True, slots=True)
class InjectedBlock:
    """A block, the citations of its lines ("fact:f_1"), and about how many tokens it has."""

    text: str
    cited: list[str]
    tokens: int


def render_injection(note: str, sections: Sequence[Section], token_budget: int) -> InjectedBlock | None:
    """Return the items that fit into a budget, in order; None where none fits, so that nothing is shown."""
    tokens = estimate_tokens(f"{RECALL_BEGIN}\n{note}\n{RECALL_END}\n")
    lines, cited = [RECALL_BEGIN, note], []
    for section in sections:
        title_tokens = estimate_tokens(section.title + "\n") if section.title else 0
        is_open = False
        for item in section.items:
            needed = estimate_tokens(item.line + "\n") + (0 if is_open else title_tokens)
            if tokens + needed > token_budget:
                continue
            if section.title and not is_open:
                lines.append(section.title)
            is_open = True
            tokens += needed
            lines.append(item.line)
            cited.append(item.citation.strip("[]"))
    return InjectedBlock("\n".join([*lines, RECALL_END]), cited, tokens) if cited else None
