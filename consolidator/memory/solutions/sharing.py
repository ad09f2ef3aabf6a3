"""What may be told to everybody of a solution that several people's sessions taught.

Where people are counted in place of sessions, a template is shared if enough people's cases prove it, with nothing of a
single case: no value, no quote, no text of a call or of an error that fewer people had. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from consolidator.memory.solutions.fix_cases import FixCase
from consolidator.memory.solutions.fix_learning import LearnedTemplate
from consolidator.memory.solutions.fix_template import (
    Edit,
    FixTemplate,
    Part,
    Source,
    case_documents,
    command_operands,
    find_value,
)
from consolidator.memory.solutions.solution import Fix, Solution


def share_templates(
    learned: Iterable[LearnedTemplate], cases: Iterable[FixCase], min_people: int
) -> list[LearnedTemplate]:
    """Return the templates that the cases of enough people prove, without what fewer of them have.

    `FixCase.root` is the person of a case.
    """
    known = list(cases)
    shared = []
    for candidate in learned:
        template = share_template(candidate, known, min_people)
        if template is not None:
            shared.append(replace(candidate, template=template))
    return shared


def share_template(learned: LearnedTemplate, cases: Sequence[FixCase], min_people: int) -> FixTemplate | None:
    """Return a template as everybody may see it; None where something that it needs is known of too few people.

    Its constant words and the words that it replaces stand in every case that it explains. What may come from one case
    alone is looked up in all of them: the words around a slot's value, operands, arguments that are left out.
    """
    template = learned.template
    explained = [case for case in cases if case.resolver in learned.hits]

    def is_common(holds: Callable[[FixCase], bool], among: Iterable[FixCase] = explained) -> bool:
        return len({case.root for case in among if holds(case)}) >= min_people

    def is_common_source(source: Source) -> bool:
        return is_common(
            lambda case: find_value(source, case_documents(case.error, case.failed, case.names)) is not None
        )

    def share_part(part: Part) -> Part:
        if not part.sources:
            return part
        return Part("", tuple(source for source in part.sources if is_common_source(source)))  # nor its values

    def share_words(words: Sequence[Sequence[Part]]) -> tuple[tuple[Part, ...], ...]:
        return tuple(tuple(map(share_part, word)) for word in words)

    def has_key(key: str) -> Callable[[FixCase], bool]:
        return lambda case: key in case.failed

    def has_operands(pattern: Sequence[str | None]) -> Callable[[FixCase], bool]:
        return lambda case: _has_operands(case, pattern)

    if not is_common(lambda case: True) or not all(is_common(has_key(key)) for key in template.dropped):
        return None
    operands = tuple(pattern for pattern in template.operands if is_common(has_operands(pattern), cases))
    if template.operands and not operands:
        return None
    texts = {key: tuple(map(share_part, parts)) for key, parts in template.texts.items()}
    edits = {
        key: tuple(Edit(share_words(edit.old), share_words(edit.new), edit.place) for edit in key_edits)
        for key, key_edits in template.edits.items()
    }
    written = [
        *texts.values(),
        *(word for changes in edits.values() for edit in changes for word in (*edit.old, *edit.new)),
    ]
    if any(not part.sources and not part.text for parts in written for part in parts):
        return None  # a slot whose value nobody else's case would show
    return replace(template, texts=texts, edits=edits, operands=operands)


def _has_operands(case: FixCase, pattern: Sequence[str | None]) -> bool:
    operands = command_operands(case.failed.get("command", ""))
    return len(operands) == len(pattern) and all(
        word in (None, operand) for word, operand in zip(pattern, operands, strict=True)
    )


def share_fix(fix: Fix, headline: str) -> Fix:
    """Return a fix without its cases; `headline` is the masked one."""
    return replace(fix, changes=(), steps=(), failing="", resolving="", headline=headline, evidence=(), last_time="")


def share_solution(solution: Solution, headline: str) -> Solution:
    """Return a solution without its cases; `headline` is the masked one."""
    fixes = tuple(share_fix(fix, headline) for fix in solution.fixes if fix.templates)
    return replace(solution, headline=headline, fixes=fixes, tried=(), evidence=(), last_at="", withheld=())


def most_common_of_people(values: Iterable[tuple[str, str]], min_people: int, fallback: str) -> str:
    """Return the value that most people have, of pairs of person and value; the fallback where too few have any."""
    people: Mapping[str, set[str]] = defaultdict(set)
    for person, value in values:
        people[value].add(person)
    counts = Counter({value: len(named) for value, named in people.items() if len(named) >= min_people})
    return min(counts, key=lambda value: (-counts[value], value)) if counts else fallback
