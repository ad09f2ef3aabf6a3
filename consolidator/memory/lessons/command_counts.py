"""Counts how a project's commands are called: each operation's successes, failures, calls and folders."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise

from consolidator.memory.calls.blame import TASK_RUNNERS
from consolidator.memory.calls.directory import changes_folder, is_absolute, name_folders
from consolidator.memory.calls.installation import installed_packages
from consolidator.memory.calls.shell_words import program_name
from consolidator.memory.lessons.harm import name_harm
from consolidator.memory.lessons.history import Cases, History, TracedSession, is_inside, most_common, segment_purpose
from consolidator.memory.lessons.segments import (
    ASSIGNMENTS,
    LEFT_OUT,
    MAX_CALL,
    TRANSPARENT_WRAPPERS,
    Segment,
    run_elsewhere,
)
from consolidator.memory.lessons.trace import TracedCall

MIN_SESSIONS = 2  # in which a command worked
HOME_SHARE = 0.9
MAX_FOLDERS = 3  # in which a program works
MIN_TARGET_SESSIONS = 3  # that name the same files: these are no one change's
MAX_USUAL_CALL, MAX_CALL_OF_FILES = 100, 60  # characters
MIN_PARENT_DEPTH = 2  # folders above one that is seen from beside it: whoever's homes lie in one are others
MIN_USUAL_SHARE = 0.2  # of the calls
MIN_PARTS = 2  # names of parts that a task was given
MIN_PATTERN_SESSIONS, MIN_VALUES, MIN_CONSTANTS = 3, 3, 2  # of a word that varies, and words beside it
MAX_PATTERN = 100  # characters
MAX_WORDS, MAX_CALLS = 16, 2000  # of a call; calls that are compared
_WORD = re.compile(r"(?:'[^']*'|[^\s'])+")
_PLAIN_WORD = re.compile(r"[\w./@?=:,%-]+")  # what holds no code, no sentence and no telephone's number
_PRIVATE = re.compile(  # an option with a value that is nobody's business, `--phone +49…`, `-p hunter2`
    r"(?i)--?[\w-]*(?:name|phone|mail|user|pass|pin|key|token|secret|auth|address)[\w-]*[ =]|-[pk] (?!\S*:)"
)
_FOLDER_OPTIONS = frozenset({"-C", "--cwd", "--prefix", "--dir", "--directory", "--manifest-path", "--project"})
_OPTION = re.compile(r"--?[A-Za-z][\w-]*", re.ASCII)
_ASSIGNED = re.compile(r"([A-Z]\w*)=('[^']*'|[^\s']*) ", re.ASCII)
_ASSIGNED_PATHS = re.compile(r"^(?:\w*(?:PATH|DIR)=[a-z.][\w./-]* )+", re.ASCII)  # of the project, as `src`
_FILE = re.compile(r"\S/(?!\.\.\.)\S|\s[\w-]+\.\w{1,5}\b")  # one call's own
Name = tuple[str, str]  # an operation, and the script, the container or the machine that it runs


@dataclass(slots=True)
class CountedCommand:
    """What became of an operation's calls."""

    worked: Cases = field(default_factory=Cases)
    failed: int = 0
    is_judged: bool = False  # whether an exit status of its own was seen: what a pipe follows has none
    is_script: bool = False
    is_elsewhere: bool = False  # run in a container, or on another machine
    heads: Counter[str] = field(default_factory=Counter)  # of its calls, what comes before all that it is given
    calls: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))  # roots, by head
    hostile: list[str] = field(default_factory=list)  # calls in lines that are told to nobody
    places: Counter[str] = field(default_factory=Counter)  # where it worked; outside the project the whole path
    seconds: list[float] = field(default_factory=list)

    def figures(self, *more: str) -> str:
        """Return how often it worked, if anything tells, and more, in brackets."""
        counts = [f"worked {len(self.worked)} of {len(self.worked) + self.failed}"] * self.is_judged
        return f" ({', '.join(figures)})" if (figures := [*counts, *filter(None, more)]) else ""

    @property
    def share(self) -> float:
        """How many of its calls worked."""
        return len(self.worked) / max(len(self.worked) + self.failed, 1)

    @property
    def is_steady(self) -> bool:
        """Whether it worked again and again, in an environment that is not one session's own."""
        works = len(self.worked) >= MIN_SESSIONS and len(self.worked) > self.failed
        return works and "=" not in _ASSIGNED_PATHS.sub("", most_common(self.heads))

    @property
    def is_own(self) -> bool:
        """Whether what it is says more than its program's name."""
        return self.is_script or self.is_elsewhere

    @property
    def known_places(self) -> Counter[str]:
        """Where it worked below the project's folder; outside, if it nearly always worked there."""
        outside = Counter({place: n for place, n in self.places.items() if is_absolute(place)})
        return outside if outside.total() >= HOME_SHARE * self.places.total() else self.places - outside

    @property
    def home(self) -> str | None:
        """The directory in which it nearly always worked."""
        places = self.known_places
        place = most_common(places) if places else None
        return place if place is not None and places[place] >= HOME_SHARE * places.total() else None

    @property
    def homes(self) -> list[str]:
        """The directory in which it nearly always worked; of a project with several modules, the two or three."""
        home, places = self.home, self.known_places
        if home is not None or places[""]:
            return [] if home is None else [home]
        often = sorted(places, key=lambda place: (-places[place], place))[:MAX_FOLDERS]
        is_most = sum(places[place] for place in often) >= HOME_SHARE * places.total()
        return sorted(often) if is_most else []

    def where(self, project: str | None) -> str:
        """Return the directories in words, where they are not the project's own."""
        homes = self.homes
        return f" in {name_folders([seen_from(home, project) for home in homes])}" if any(homes) else ""

    def has_place(self, project: str | None) -> bool:
        """Whether it can be told where it works: a script in one folder; outside the project in one with a name."""
        if self.known_places and not self.known_places[""] and not self.homes:
            return False  # in many folders, and never in the project's own, where it would be run
        if not self.is_script and not any(map(is_absolute, self.known_places)):
            return True
        return self.home is not None and name_harm(seen_from(self.home, project)) is None

    @property
    def head(self) -> str:
        """The operation with what it needs before it: an environment, if it mostly has that."""
        head = most_common(self.heads)
        if 2 * self.heads[head] >= self.heads.total():
            return head
        heads = Counter[str]()
        for each, count in self.heads.items():
            heads[ASSIGNMENTS.sub("", each)] += count
        return most_common(heads)

    @property
    def usual_call(self) -> str:
        """The call that is often made; where calls differ the operation with what it needs before it.

        One that names files is a change's own, unless several sessions name them and no other call is usual.
        """
        shown = {call: roots for (_, call), roots in self.calls.items() if not LEFT_OUT.search(call)}
        of_files = {call for head, call in self.calls if _FILE.search(call.removeprefix(head))}
        own = min(MIN_SESSIONS, len(self.worked.roots))  # what is given in one session alone is its own
        total = sum(map(len, shown.values()))
        for candidates, needed, longest in (
            (shown.keys() - of_files, own, MAX_USUAL_CALL),
            (shown.keys() & of_files, MIN_TARGET_SESSIONS, MAX_CALL_OF_FILES),
        ):
            calls = Counter({call: len(shown[call]) for call in candidates if len({*shown[call]}) >= needed})
            call = most_common(calls) if calls else ""
            is_only = calls[call] == total >= MIN_SESSIONS
            if len(call) <= longest and (is_only or calls[call] >= max(3, MIN_USUAL_SHARE * total)):
                return call
        return self.head

    @property
    def is_bare(self) -> bool:
        """Whether it is told without what it was given nearly each time: it may do nothing by itself."""
        counts = Counter({call: len(roots) for (_, call), roots in self.calls.items()})
        is_rare = counts[self.head] < MIN_USUAL_SHARE * counts.total()
        return is_rare and not self.is_own and self.usual_call == self.head

    @property
    def shown_call(self) -> str:
        """The usual call; "…" stands for what it was always given where that varied."""
        head = self.head
        is_given = self.is_bare and not any(call.endswith(head) for _, call in self.calls)
        return f"{self.usual_call} …" if is_given else self.usual_call

    @property
    def is_whole(self) -> bool:
        """Whether it is told with all that it was given, and of no files in particular."""
        return not (self.is_bare or self.names_files)

    @property
    def names_files(self) -> bool:
        """Whether it is told with files in particular."""
        return _FILE.search(self.usual_call.removeprefix(self.head)) is not None

    def find_pattern(self) -> tuple[str, int] | None:
        """Return the call that is often made with one other word each time, as "…", and in how many sessions.

        The other words are the lesson. None of its cases is hostile, and what varies is not told.
        """
        roots: dict[tuple[str, ...], list[str]] = defaultdict(list)
        values: dict[tuple[str, ...], set[str]] = defaultdict(set)
        hostile: set[tuple[str, ...]] = set()
        first = len(_WORD.findall(self.head))
        latest = islice(reversed(self.calls.items()), MAX_CALLS)
        for (_, call), callers in [*latest, *((("", call), []) for call in {*self.hostile})]:
            words = _WORD.findall(call) if call.startswith(f"{self.head} ") and len(call) < MAX_CALL else []
            words = words if len(words) <= MAX_WORDS else []
            for place in range(first, len(words)):
                pattern = (*words[:place], "…", *words[place + 1 :])
                roots[pattern] += callers
                values[pattern] |= {words[place]} if words[place] != "…" else {f"…{n}" for n in range(len(callers))}
                hostile |= set() if callers else {pattern}

        sessions = {pattern: len({*callers}) for pattern, callers in roots.items()}
        for pattern in sorted(roots.keys() - hostile, key=lambda pattern: (-sessions[pattern], pattern)):
            given = [(before, word) for before, word in pairwise(pattern[first - 1 :]) if word != "…"]
            # A word that no option names may be anything, as a password that a script types.
            is_plain = all(
                _PLAIN_WORD.fullmatch(word) and "-" in (before[0], word[0]) and not _PRIVATE.match(f"{before} {word}")
                for before, word in given
            )
            says = len(given) >= MIN_CONSTANTS - self.is_own and is_plain
            is_often = sessions[pattern] >= MIN_PATTERN_SESSIONS and len(values[pattern]) >= MIN_VALUES
            if says and is_often and len(call := " ".join(pattern)) <= MAX_PATTERN:
                return call, sessions[pattern]
        return None

    def find_part(self) -> str | None:
        """Return the call of a part of what a task does, as several sessions made it; "…" for the part's name."""
        is_task = self.is_script or program_name(self.head.split(" ", 1)[0]) in TASK_RUNNERS
        if not is_task or self.names_files:
            return None
        roots: dict[tuple[str, str], set[str]] = defaultdict(set)  # by what stands before the task and after it
        values: dict[tuple[str, str], set[str]] = defaultdict(set)
        for (head, call), callers in islice(reversed(self.calls.items()), MAX_CALLS):
            before = call.removesuffix(ASSIGNMENTS.sub("", call))
            given = call.removeprefix(before).removeprefix(ASSIGNMENTS.sub("", head))
            slots = [((f"{name}=… ", ""), value) for name, value in _ASSIGNED.findall(before)]
            for slot, value in [*slots, *((("", slot), value) for slot, value in _find_slots(given))]:
                roots[slot] |= {*callers}
                values[slot].add(value)

        often = [slot for slot in roots if len(roots[slot]) >= MIN_SESSIONS and len(values[slot]) >= MIN_PARTS]
        public = [slot for slot in often if not _PRIVATE.search("".join(slot))]
        if not public:
            return None
        before, after = min(public, key=lambda slot: (-len(roots[slot]), -len(values[slot]), slot))
        call = ASSIGNMENTS.sub("", self.usual_call)
        part = f"{before}{call}{after.removeprefix(' --') if ' -- ' in call else after}"
        return part if part != self.shown_call and name_harm(part) is None else None


def _find_slots(given: str) -> Iterator[tuple[str, str]]:
    """Yield what a task was given after its name as it may be told, "…" for a value, with the value."""
    words = _WORD.findall(given)[:MAX_WORDS]
    dashes = " -- " if "--" in words else " "
    named = ""
    for word in words:
        option, is_set, value = word.partition("=")
        if _OPTION.fullmatch(option) or (is_set and option.isupper()):  # such as `make test FILTER=cart`
            named = "" if is_set else f"{option} "
            if is_set:
                yield f"{dashes}{option}=…", value
        elif word != "--":
            yield f"{dashes}{named}…", word
            named = ""


def seen_from(place: str, project: str | None) -> str:
    """Return a folder outside the project as seen from there, if it lies beside it, below more than a home."""
    parent = (project or "").rpartition("/")[0]
    is_home = parent.rpartition("/")[2].lower() in ("home", "homes", "users")
    is_beside = parent.count("/") >= MIN_PARENT_DEPTH and not is_home and place.startswith(f"{parent}/")
    return f"../{place.removeprefix(f'{parent}/')}" if is_beside else place


def count_commands(history: History) -> dict[Name, CountedCommand]:
    """Return what became of each operation that sessions ran; one that only looks is none."""
    commands: dict[Name, CountedCommand] = defaultdict(CountedCommand)
    for session, call in history.calls():
        for segment in call.segments:
            if segment.is_trivial or segment.ok is None:
                continue
            if segment_purpose(segment) == "install" and installed_packages("bash", {"command": segment.call}):
                continue  # of one package: not how the project is installed
            elsewhere = run_elsewhere(segment)
            if elsewhere is not None and elsewhere.is_trivial:
                continue
            named = elsewhere or segment
            place = session.place_of_script(call, segment)
            if place is None:
                continue
            if elsewhere is not None:
                place = " ".join(word for word in elsewhere.prefix.split() if not word.startswith("-"))
            command = commands[named.operation, place]
            if segment.ok and segment.is_hostile:
                command.hostile.append(segment.full_call)
                continue
            command.is_judged |= not segment.piped
            command.is_script |= bool(segment.script)
            command.is_elsewhere |= elsewhere is not None
            if segment.ok:
                command.worked.add(session, call)
                _note_call(command, session, segment, named)
                command.places.update(_places(session, call, segment))
                if len(call.segments) == 1 and call.seconds is not None:
                    command.seconds.append(call.seconds)
            elif all(wrapper in TRANSPARENT_WRAPPERS or wrapper in segment.prefix for wrapper in segment.wrappers):
                command.failed += 1
    return commands


def _note_call(command: CountedCommand, session: TracedSession, segment: Segment, named: Segment) -> None:
    """Note how an operation was called; a script of the project by where it is there."""
    own = f"{session.base}/" if segment.script and session.base else "\n"
    head = (named.bare_call or "").replace(own, "")
    command.heads.update([head] if head else [])
    command.calls[head, segment.full_call.replace(own, "")].append(session.root)


def _places(session: TracedSession, call: TracedCall, segment: Segment) -> list[str]:
    """Return where a segment ran; nothing where that did not matter, or is not certain."""
    if segment.script and session.base and f" {session.base}/" in segment.script:
        return [""]  # from where it is told
    is_told = _FOLDER_OPTIONS.intersection(segment.options) or any(map(is_absolute, segment.paths))
    place = None if is_told or changes_folder(call.line) else session.relative(call.directory)
    return [place] if place is not None and (is_inside(place) or is_absolute(place)) else []
