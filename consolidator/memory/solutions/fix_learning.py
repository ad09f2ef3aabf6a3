"""Learn fix templates from cases: programming by example, checked on every case.

The calls that worked are cut into tokens and aligned; where they differ, a slot takes the source that had the value in
most cases. A template must have reproduced what worked in two cases, and in most of those to which it applies.
Pure, and independent of the order of the cases.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from consolidator.memory.solutions.fix_cases import CallTexts, FixCase, StepCall, same_texts, split_streaks
from consolidator.memory.solutions.fix_template import (
    Edit,
    FixTemplate,
    Part,
    Source,
    case_documents,
    command_operands,
    find_sources,
    is_name_document,
    is_word,
    names_a_case,
    split_code,
)

MIN_CASES = 2
MIN_TRUST = 0.7  # expected share of right answers, below which a template is not told
MAX_TEMPLATES = 3
MAX_SLOT_SOURCES = 3
_MAX_EDITS = 4
_MIN_INNER = 3  # characters of a value that is looked for inside another one
_MAX_SHARED_NAMES = 0.5  # of two cases' names, above which they are one case told twice
_MIN_SIMILARITY = 0.35  # of two texts, below which one is no edit of the other


@dataclass(frozen=True, slots=True)
class LearnedTemplate:
    """A template and how it did in the cases from which it was learned."""

    template: FixTemplate
    hits: frozenset[tuple[str, int]]  # resolvers of the cases in which it names what worked
    applied: int  # cases to which it applies
    roots: int  # lineage roots of the hits
    failed: int  # times that the same call was tried in vain

    @property
    def trust(self) -> float:
        """The expected share of right answers, by the rule of succession."""
        return (len(self.hits) + 1) / (self.applied + self.failed + 2)


@dataclass(frozen=True, slots=True)
class _Example:
    """A call of a case as a form, and the tokens of its slots."""

    case: FixCase
    form: tuple[object, ...]  # all that examples of one template share
    values: tuple[str, ...]
    outline: FixTemplate  # with a slot for each value, without sources


def learn_templates(cases: Iterable[FixCase], *, min_trust: float = MIN_TRUST) -> list[LearnedTemplate]:
    """Return the templates of an error's cases, the most trusted first, without those that explain nothing new."""
    distinct, in_vain = split_streaks(sorted(cases, key=_case_key))
    if len(distinct) < MIN_CASES:
        return []
    groups: dict[tuple[object, ...], list[_Example]] = defaultdict(list)
    for case in distinct:
        for example in _examples(case):
            groups[example.form].append(example)
    learned = []
    for group in groups.values():
        if len({example.case.resolver for example in group}) >= MIN_CASES and (template := _generalize(group)):
            checked = _check(template, distinct, in_vain)
            is_accident = template.same_call_only is not None and checked.roots < MIN_CASES
            if len(checked.hits) >= MIN_CASES and checked.trust >= min_trust and not is_accident:
                learned.append(checked)
    learned.sort(key=_learned_key)
    chosen: list[LearnedTemplate] = []
    explained: set[tuple[str, int]] = set()
    for candidate in learned:
        if candidate.hits - explained or _binds_otherwise(candidate, chosen):
            chosen.append(candidate)
            explained |= candidate.hits
    return chosen[:MAX_TEMPLATES]


def _binds_otherwise(candidate: LearnedTemplate, chosen: Sequence[LearnedTemplate]) -> bool:
    """Whether a template can answer without the failed call, which no chosen one can."""

    def needs_call(template: FixTemplate) -> bool:
        sources = [source for parts in template.texts.values() for part in parts for source in part.sources]
        return template.keeps or bool(template.edits) or not all(source.is_of_error for source in sources)

    return not needs_call(candidate.template) and all(needs_call(other.template) for other in chosen)


def _case_key(case: FixCase) -> tuple[object, ...]:
    return (case.resolver, case.seq, case.error, sorted(case.failed.items()))


def _learned_key(learned: LearnedTemplate) -> tuple[object, ...]:
    """Order templates: the most trusted, then calls before steps, then changes of the failed call, then by text."""
    template = learned.template
    is_whole = not (template.keeps or template.edits)
    return (-round(learned.trust, 6), -len(learned.hits), template.kind, is_whole, str(template.to_json()))


def _check(template: FixTemplate, cases: Sequence[FixCase], in_vain: Sequence[FixCase]) -> LearnedTemplate:
    """Count the cases in which a template names what worked, and those in which it was tried in vain."""
    hits: set[tuple[str, int]] = set()
    roots: set[str] = set()
    applied = failed = 0
    for case in cases:
        bound = template.bind(case.error, case.failed or None, case.names)
        if bound is None:
            continue
        applied += 1
        failed += any(same_texts(bound, attempt) for attempt in case.attempts)
        if _is_right(template, bound, case):
            hits.add(case.resolver)
            roots.add(case.root)
    for case in in_vain:
        bound = template.bind(case.error, case.failed or None, case.names)
        if bound is not None and template.kind == "step":
            failed += _is_right(template, bound, case)
        elif bound is not None:
            failed += any(same_texts(bound, attempt) for attempt in case.attempts)
    return LearnedTemplate(template, frozenset(hits), applied, len(roots), failed)


def _is_right(template: FixTemplate, bound: CallTexts, case: FixCase) -> bool:
    if template.kind == "step":
        return any(step.tool == template.tool and same_texts(bound, step.arguments) for step in case.steps)
    if case.worked is None or case.acted or template.tool != case.tool:
        return False
    return same_texts(bound, case.worked)


def _examples(case: FixCase) -> Iterator[_Example]:
    """Yield the calls that a template could name: the one that worked, as an edit and whole, and the steps before."""
    documents = _documents(case)
    if case.worked is not None and not case.acted:
        if case.tool is None and case.failed:
            edit = _edit_example(case, documents)
            if edit is not None:
                yield edit
        if case.worked != case.failed and not _repeats_arguments(case):
            yield _whole_example(case, "call", StepCall(case.tool, case.worked), documents)
    for step in dict.fromkeys((s.tool, tuple(sorted(s.arguments.items()))) for s in case.steps):
        yield _whole_example(case, "step", StepCall(step[0], dict(step[1])), documents)


def _documents(case: FixCase) -> dict[str, str]:
    return case_documents(case.error, case.failed, case.names)


def _repeats_arguments(case: FixCase) -> bool:
    """Whether the same tool got some arguments again: they are the case's own, so that the call is told as a change."""
    worked = case.worked or {}
    is_same_tool = case.tool is None and "command" not in worked
    return is_same_tool and any(worked.get(key) == text for key, text in case.failed.items())


class _Slots:
    """Cuts texts into parts: a token that stands in the case's documents, or names a case, becomes a slot."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        self.documents = documents
        self.values: list[str] = []
        words = {token for text in documents.values() for token in split_code(text) if len(token) >= _MIN_INNER}
        self._error_names = {text for name, text in documents.items() if is_name_document(name)}
        self._names = sorted(word for word in words if is_word(word) and any(mark.isdigit() for mark in word))

    def cut(self, text: str) -> tuple[Part, ...]:
        """Return the parts of a text; the text of a slot is its number."""
        parts: list[Part] = []
        for token in (piece for whole in split_code(text) for piece in self._split_affixes(whole)):
            if is_word(token) and self._is_value(token):
                parts.append(Part(str(len(self.values)), (_OPEN,)))
                self.values.append(token)
            elif parts and not parts[-1].sources:
                parts[-1] = Part(parts[-1].text + token)
            else:
                parts.append(Part(token))
        return tuple(parts)

    def _split_affixes(self, token: str) -> list[str]:
        """Return a token that contains a known value in its pieces: "F-20655" where the failed call had "20655"."""
        if not (is_word(token) and names_a_case(token)) or self._is_known(token):
            return [token]
        inner = max((word for word in self._names if word in token), key=len, default=None)
        if inner is None:
            return [token]
        prefix, _, suffix = token.partition(inner)
        return [piece for piece in (prefix, inner, suffix) if piece]

    def _is_value(self, token: str) -> bool:
        if token.startswith("-"):  # an option stays, unless the error names it
            return token in self._error_names
        return names_a_case(token) or self._is_known(token)

    def _is_known(self, token: str) -> bool:
        return any(token in text for text in self.documents.values())


_OPEN = Source("", ())


def _whole_example(case: FixCase, kind: str, call: StepCall, documents: Mapping[str, str]) -> _Example:
    slots = _Slots(documents)
    texts = {key: slots.cut(text) for key, text in sorted(call.arguments.items())}
    outline = FixTemplate(kind, call.tool, texts)
    return _Example(case, (kind, call.tool, tuple(texts.items())), tuple(slots.values), outline)


def _edit_example(case: FixCase, documents: Mapping[str, str]) -> _Example | None:
    """Return the call that worked as a change of the failed one; None where it is another text."""
    assert case.worked is not None
    slots = _Slots(documents)
    texts: dict[str, tuple[Part, ...]] = {}
    edits: dict[str, tuple[Edit, ...]] = {}
    for key, new in sorted(case.worked.items()):
        old = case.failed.get(key)
        if old is not None and old.split() == new.split():
            continue
        changes = None if old is None else _edit_words(old.split(), new.split(), slots)
        if changes is None:
            texts[key] = slots.cut(new)
        else:
            edits[key] = changes
    if "command" in texts:
        return None
    dropped = tuple(sorted(case.failed.keys() - case.worked.keys()))
    outline = FixTemplate("call", None, texts, edits, dropped, keeps=True)
    form = ("edit", tuple(texts.items()), tuple(edits.items()), dropped)
    return _Example(case, form, tuple(slots.values), outline)


def _edit_words(old: list[str], new: list[str], slots: _Slots) -> tuple[Edit, ...] | None:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    if matcher.ratio() < _MIN_SIMILARITY or len(changes) > _MAX_EDITS:
        return None
    edits = []
    for _, start, end, new_start, new_end in changes:
        place = None
        if start == end:
            place = "$" if end == len(old) else "^" if start == 0 else old[start - 1]
        replaced = tuple(slots.cut(word) for word in old[start:end])
        edits.append(Edit(replaced, tuple(slots.cut(word) for word in new[new_start:new_end]), place))
    return tuple(edits)


def _generalize(group: Sequence[_Example]) -> FixTemplate | None:
    """Return the template of aligned examples; None where a slot has no source that two cases share."""
    latest = group[-1]
    parts: list[Part] = []
    varies = names_one_case = False
    for position, value in enumerate(latest.values):
        values = [example.values[position] for example in group]
        is_constant = len(set(values)) == 1
        if is_constant and not names_a_case(value):
            parts.append(Part(value))
            continue
        sources = _shared_sources(group, values)
        varies = varies or not is_constant
        if sources:
            parts.append(Part(value, sources, tuple(sorted(set(values)))))
        elif is_constant:
            parts.append(Part(value))
            names_one_case = True
        else:
            return None
    is_general = (varies and not names_one_case) or _are_independent(group) or _differ_in_names(group)
    template = _fill_outline(latest.outline, parts)
    if _writes_operands(template):
        template = replace(template, operands=_shared_operands(group))
    if is_general or (_writes_what_the_error_says(template) and len({example.case.root for example in group}) > 1):
        return template
    return replace(template, same_call_only=dict(latest.case.failed))


def _writes_operands(template: FixTemplate) -> bool:
    """Whether a template writes a command, or adds more than options to the failed one."""
    if template.kind != "call" or template.tool is not None:
        return False
    added = [word for edit in template.edits.get("command", ()) if not edit.old for word in edit.new]
    return "command" in template.texts or any(word and not word[0].text.startswith("-") for word in added)


def _shared_operands(group: Sequence[_Example]) -> tuple[tuple[str | None, ...], ...]:
    """Return the operands of the failed commands, those of each number aligned; None where they differ."""
    by_length: dict[int, set[tuple[str, ...]]] = defaultdict(set)
    for example in group:
        operands = command_operands(example.case.failed.get("command", ""))
        by_length[len(operands)].add(operands)
    aligned = (zip(*by_length[length], strict=True) for length in sorted(by_length) if length)
    return tuple(tuple(words[0] if len(set(words)) == 1 else None for words in columns) for columns in aligned)


def _writes_what_the_error_says(template: FixTemplate) -> bool:
    """Whether all that a template changes of the failed call is a value that the error names."""
    new = [part for edits in template.edits.values() for edit in edits for word in edit.new for part in word]
    new += [part for parts in template.texts.values() for part in parts]
    named = [part for part in new if part.sources and part.sources[0].is_of_error]
    constant = "".join(part.text for part in new if part not in named)
    return template.keeps and bool(named) and not template.dropped and not any(map(str.isalnum, constant))


def _are_independent(group: Sequence[_Example]) -> bool:
    """Whether two of the examples are about different things: what they share is no accident of one case."""
    names = [_case_names(example.case) for example in group]
    return any(
        len(first & second) <= _MAX_SHARED_NAMES * min(len(first), len(second))
        for position, first in enumerate(names)
        for second in names[:position]
    )


def _differ_in_names(group: Sequence[_Example]) -> bool:
    return len({example.case.names for example in group}) > 1


def _case_names(case: FixCase) -> set[str]:
    """Return the words of a failure that name its case."""
    texts = (case.error.split("\n", 1)[0], *case.failed.values())
    return {token for text in texts for token in split_code(text) if is_word(token) and names_a_case(token)}


def _shared_sources(group: Sequence[_Example], values: Sequence[str]) -> tuple[Source, ...]:
    """Return the sources that had the value in most cases, at least in two; the most frequent first."""
    counts: Counter[Source] = Counter()
    for example, value in zip(group, values, strict=True):
        counts.update(set(find_sources(value, _documents(example.case))))
    enough = max(MIN_CASES, 0.6 * len(group))
    latest, value = group[-1].case, values[-1]
    in_order = list(dict.fromkeys(find_sources(value, _documents(latest))))  # the headline first
    shared = sorted((s for s in in_order if counts[s] >= enough), key=lambda s: -counts[s])
    return tuple(shared[:MAX_SLOT_SOURCES])


def _fill_outline(outline: FixTemplate, parts: Sequence[Part]) -> FixTemplate:
    def fill(outlined: Iterable[Part]) -> tuple[Part, ...]:
        filled: list[Part] = []
        for part in outlined:
            part = parts[int(part.text)] if part.sources == (_OPEN,) else part
            if filled and not part.sources and not filled[-1].sources:
                filled[-1] = Part(filled[-1].text + part.text)
            else:
                filled.append(part)
        return tuple(filled)

    def fill_words(outlined: Iterable[Iterable[Part]]) -> tuple[tuple[Part, ...], ...]:
        return tuple(fill(word) for word in outlined)

    return FixTemplate(
        outline.kind,
        outline.tool,
        {key: fill(text) for key, text in outline.texts.items()},
        {
            key: tuple(Edit(fill_words(edit.old), fill_words(edit.new), edit.place) for edit in edits)
            for key, edits in outline.edits.items()
        },
        outline.dropped,
        outline.keeps,
    )
