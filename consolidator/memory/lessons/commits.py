"""Learns how a project's commits are made, and which repository the calls of `gh` name."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from consolidator.memory.lessons.history import Cases, History, code, most_common
from consolidator.memory.lessons.lesson import Lesson

MIN_SESSIONS = 3
MAX_COMMITS_SCORE = 4.0  # how commits are made matters less than what fails
MIN_FORM_SHARE = 0.8  # of the commits, that have a subject of one form
TYPED = "type: …"  # the form of a subject
MAX_TYPES = 4  # of commits, the most frequent
MIN_CONSTANT_SHARE, MIN_CONSTANT_SESSIONS = 0.8, 2
_OF_REPOSITORY = re.compile(
    r"gh (?:pr|issue|run|workflow|release|repo (?:view|edit|sync)|label|cache|secret|variable)\b"
)
NO_REMOTE = re.compile(r"no git remotes|none of the git remotes|not a git repository", re.IGNORECASE)  # as `gh` says it
_SUBJECT = (
    re.compile(  # a ticket, a tag in brackets, or a word and a scope before a colon, where a commit's subject begins
        r"\bgit (?:-[cC] \S+ )*commit [^&;|]*?(?:-[a-z]*m |--message[ =]|-F - ?)"
        r"(?:[\"']?\$\(cat )?(?:<<-?\s*[\"']?\w+[\"']?|[\"'])\s*(?=.{9})"
        r"(?:\[?([A-Z][A-Z\d]{1,9})-\d+\b|(\[)[\w/.,: -]{1,40}\] |([A-Za-z][A-Za-z\d]{1,14})(\([^()]{1,40}\))?!?: )?",
        re.ASCII,
    )
)


def learn_commits(history: History) -> Iterator[Lesson]:
    """Yield how commits are made: the form of their subjects, and whether they are pushed.

    Of subjects nothing is kept but a word before a colon.
    """
    forms: dict[str, Cases] = defaultdict(Cases)
    types: dict[str, set[str]] = defaultdict(set)  # sessions
    pushed: dict[str, bool] = {}  # session -> whether it pushed after a commit
    scoped = 0
    for session, call in history.calls():
        for segment in call.segments:
            if not segment.ok or segment.is_hostile or not session.is_here(call, segment):
                continue
            if segment.operation == "git push" and session.root in pushed:
                pushed[session.root] = True
            elif segment.operation == "git commit":
                pushed.setdefault(session.root, False)
                if subject := read_subject(call.line):
                    form, word, scope = subject
                    forms[form].add(session, call)
                    if form == TYPED:
                        scoped += bool(scope)
                        types[word].add(session.root)

    total = sum(map(len, forms.values()))
    form, cases = max(forms.items(), key=lambda each: (len(each[1]), each[0]), default=("", Cases()))
    if len(cases.roots) < MIN_SESSIONS or len(cases) < MIN_FORM_SHARE * total:
        return
    shown = code(form) if form else "a plain subject without `type:`"
    if form == TYPED:
        shown = "`type(scope): …`" if 2 * scoped > len(cases) else "`type: …`"
        usual = sorted((-len(roots), name) for name, roots in types.items() if len(roots) > 1)[:MAX_TYPES]
        shown += f", mostly {', '.join(code(name) for _, name in usual)}" if usual else ""
    push = "; mostly pushed at once" if sum(pushed.values()) >= MIN_FORM_SHARE * len(pushed) else ""
    line = f"Commits here: {shown} ({len(cases)} of {total}{push})."
    yield cases.build_lesson("constant", "commits", line, min(MAX_COMMITS_SCORE, 0.3 * len(cases.roots)))


def read_subject(line: str) -> tuple[str, str, str] | None:
    """Return the form of a commit's subject, with its type and scope; None where a line shows none."""
    if (subject := _SUBJECT.search(line)) is None:
        return None
    ticket, tag, word, scope = subject.groups(default="")
    form = f"{ticket}-…" if ticket else "[tag] …" if tag else f"{word}: …" if word else ""
    return TYPED if word.islower() else form, word, scope


def learn_repository(history: History) -> Iterator[Lesson]:
    """Yield the repository that nearly all successful `gh` calls name.

    One that is not called as the project's folder may be somebody else's: more calls have to name it than leave it out,
    in more sessions.
    """
    cases: dict[str, Cases] = defaultdict(Cases)
    unnamed = failures = 0  # the calls that leave it out
    for session, call in history.calls():
        if call.kind == "shell" and call.ok and call.value and "/" in call.value:
            cases[call.value].add(session, call)
        elif call.kind == "shell" and any(_OF_REPOSITORY.match(segment.operation) for segment in call.segments):
            unnamed += call.ok is True
            failures += any(NO_REMOTE.search(headline.text) is not None for headline in call.headlines)
    counts = Counter({value: len(members) for value, members in cases.items()})
    best = most_common(counts) if counts else None
    if best is None or len(cases[best].roots) < MIN_CONSTANT_SESSIONS:
        return
    is_own = best.rpartition("/")[2].casefold() == (history.home or "").rpartition("/")[2].casefold()
    if not is_own and (len(cases[best].roots) < MIN_SESSIONS or counts[best] <= unnamed):
        return
    if counts[best] >= MIN_CONSTANT_SHARE * counts.total():
        shares = f"{counts[best]} of {counts.total() + unnamed}" + (f"; {failures} failed without" if failures else "")
        yield cases[best].build_lesson(
            "constant",
            "gh repository",
            f"`gh` calls here name the repository {code(best)} ({shares}).",
            1.0 * len(cases[best].roots),
            successes=counts[best],
            failures=failures,
            instead=best,
            starts=failures > 0 or counts[best] > unnamed,
        )
