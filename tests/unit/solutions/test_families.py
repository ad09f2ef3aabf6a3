"""A family's fix is learned from several names and sessions, and answers another name with that very name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from consolidator.memory.solutions.error_line import headline
from consolidator.memory.solutions.families import FamilyGroups
from consolidator.memory.solutions.fingerprint import (
    error_names,
    family_fingerprint,
    fingerprint_headline,
    is_family,
)
from consolidator.memory.solutions.fix_suggestion import (
    FailedCall,
    Suggestion,
    answer_line,
    knows_better,
    suggest_family_fix,
)
from consolidator.memory.solutions.grouping import ErrorOccurrence, SourcedRecord, build_solutions
from consolidator.memory.solutions.solution import Solution
from tests.unit.solutions.test_grouping import shell_call, track_session

NO_MODULE = "Traceback (most recent call last):\nModuleNotFoundError: No module named '{}'"


def learn_families(records: Sequence[SourcedRecord]) -> list[Solution]:
    """Return the families of some records, as a night publishes them."""
    occurrences = []
    for ref, record in records:
        family = family_fingerprint(record.symbol, record.headline)
        if family is not None:
            occurrences.append(replace(ErrorOccurrence.of_record(ref, record), fingerprint=family))
    groups = FamilyGroups(occurrences)
    known = {(ref.session_id, record.seq): record for ref, record in records}
    return groups.build_solutions({key: known[key] for key in groups.cited_records()})


def missing_module(
    session: str, module: str, fix: str = "pip install {}", root: str | None = None
) -> list[SourcedRecord]:
    return track_session(
        session,
        shell_call("python app.py", False, NO_MODULE.format(module)),
        shell_call(fix.format(module)),
        shell_call("python app.py"),
        root=root,
    )


def suggest(families: Sequence[Solution], error: str, command: str) -> Suggestion | None:
    assert len(families) == 1
    return suggest_family_fix(families[0].to_json(), error, FailedCall("Bash", {"command": command}))


@pytest.mark.parametrize(
    ("tool", "line", "family", "names"),
    [
        ("sh:python", "No module named 'requests'", "sh:python|any: No module named ⟨name⟩", ("requests",)),
        ("sh:ls", "bash: line 3: jq: command not found", "sh:⟨name⟩|any: command not found: ⟨name⟩", ("jq",)),
        ("sh:rg", "rg: unrecognized option '--foo'", "sh:rg|any: rg: unrecognized option ⟨name⟩", ("--foo",)),
    ],
)
def test_a_family_is_the_error_without_its_names(tool: str, line: str, family: str, names: tuple[str, ...]) -> None:
    found = family_fingerprint(tool, line)
    assert found is not None
    assert found.partition(":")[2] == family
    assert is_family(found)
    assert error_names(line) == names


@pytest.mark.parametrize("line", ["fatal: The current branch x1 has no upstream branch.", "HTTP/1.1 404 Not Found", ""])
def test_an_error_without_a_name_that_decides_has_no_family(line: str) -> None:
    assert family_fingerprint("t", line) is None
    assert not is_family(fingerprint_headline("t", line))


def test_a_module_that_was_never_met_gets_the_familys_fix() -> None:
    families = learn_families([*missing_module("s1", "requests"), *missing_module("s2", "numpy")])
    error = NO_MODULE.format("httpx")
    suggestion = suggest(families, error, "python other.py")
    assert suggestion is not None
    assert suggestion.arguments is None  # no session installed it: anybody may have made up its name
    assert suggestion.text == "for other names, in 2 of 2 cases: first run `pip install ⟨name in the error⟩`"
    known = suggest(families, NO_MODULE.format("numpy"), "python other.py")
    assert known is not None
    assert (known.kind, known.arguments) == ("step", {"command": "pip install numpy"})
    assert families[0].line == (
        "python failed: “ModuleNotFoundError: No module named ⟨name⟩” → first run `pip install ⟨name in the error⟩` "
        "(worked in 2 of 2, in 2 sessions, for 2 names)"
    )
    line = answer_line(families[0].to_json(), known, headline(NO_MODULE.format("numpy")))
    assert line.startswith("python failed: “ModuleNotFoundError: No module named 'numpy'” → for other names")
    assert "httpx" not in answer_line(families[0].to_json(), suggestion, headline(error))


@pytest.mark.parametrize(
    "package",
    [
        "evil_pkg",
        "reqeusts",
        "requests2",
        "rеquests",
        "re\u200bquests",
        "git+https://x",
        "-rx",
        "./x",
        "x;id",
        "$HOME",
        "@x/y",
    ],
)
def test_a_package_that_no_session_installed_is_at_most_described(package: str) -> None:
    families = learn_families([*missing_module("s1", "requests"), *missing_module("s2", "numpy")])
    suggestion = suggest(families, NO_MODULE.format(package), "python app.py")
    assert suggestion is None or (suggestion.tool, suggestion.arguments) == (None, None)
    assert suggestion is None or package not in suggestion.text


def test_one_name_or_one_session_is_no_family() -> None:
    assert not learn_families([*missing_module("s1", "requests"), *missing_module("s2", "requests")])
    assert not learn_families([*missing_module("s1", "requests", root="r"), *missing_module("s2", "numpy", root="r")])


def test_a_fix_that_does_not_use_the_name_says_nothing_about_another() -> None:
    assert not learn_families(
        [*missing_module("s1", "requests", "pip install flask"), *missing_module("s2", "numpy", "pip install flask")]
    )
    assert not learn_families(
        [*missing_module("s1", "yaml", "pip install pyyaml"), *missing_module("s2", "cv2", "pip install opencv")]
    )


def test_a_fix_that_worked_for_the_fewer_names_is_not_told() -> None:
    records = [*missing_module("s1", "requests"), *missing_module("s2", "numpy")]
    for number, module in enumerate(("yaml", "cv2", "bs4"), 3):
        records += missing_module(f"s{number}", module, f"pip install other-{number}")
    assert not learn_families(records)


def test_an_unknown_option_is_left_out() -> None:
    def unknown_option(session: str, option: str, pattern: str) -> list[SourcedRecord]:
        error = f"error: unrecognized option '{option}'"
        failed, worked = f"rg {option} {pattern} src", f"rg {pattern} src"
        return track_session(session, shell_call(failed, False, error), shell_call(worked))

    families = learn_families([*unknown_option("s1", "--fancy", "alpha"), *unknown_option("s2", "--deep", "beta")])
    suggestion = suggest(families, "error: unrecognized option '--wide'", "rg --wide gamma lib")
    assert suggestion is not None
    assert suggestion.arguments == {"command": "rg gamma lib"}


def test_a_missing_command_is_installed_by_its_own_name() -> None:
    def missing_command(session: str, name: str) -> list[SourcedRecord]:
        return track_session(
            session,
            shell_call(f"{name} -r out", False, f"bash: {name}: command not found"),
            shell_call(f"apt-get install -y {name}"),
            shell_call(f"{name} -r out"),
        )

    families = learn_families([*missing_command("s1", "zip"), *missing_command("s2", "jq")])
    suggestion = suggest(families, "bash: line 1: jq: command not found", "jq -L 2")
    assert suggestion is not None
    assert suggestion.arguments == {"command": "apt-get install -y jq"}
    assert families[0].failed == "⟨name⟩"


def test_the_order_of_records_does_not_matter() -> None:
    records = [
        record
        for number, module in enumerate(("requests", "numpy", "flask", "httpx"))
        for record in missing_module(f"s{number}", module)
    ]
    shuffled = list(records)
    Random(7).shuffle(shuffled)
    assert learn_families(shuffled) == learn_families(records)


def test_a_names_own_single_case_agrees_or_stands() -> None:
    families = learn_families([*missing_module("s1", "requests"), *missing_module("s2", "numpy")])
    error = NO_MODULE.format("requests")
    suggestion = suggest(families, error, "python app.py")
    assert suggestion is not None
    own = build_solutions(missing_module("s1", "requests"))[0].to_json()
    assert not knows_better(own, suggestion, error)
    other = build_solutions(missing_module("s1", "requests", "pip install python-requests"))[0].to_json()
    assert knows_better(other, suggestion, error)
    unsolved = {**own, "fixes": []}
    assert not knows_better(unsolved, suggestion, error)
    assert knows_better({**unsolved, "tried": ["pip install requests"]}, suggestion, error)
