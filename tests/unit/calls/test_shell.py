"""What a command line runs, and which program's outcome it reports."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.memory.calls import shell
from consolidator.memory.calls.blame import is_acting


def reported_name(command: str) -> str | None:
    reported = shell.reported_command(shell.parse_commands(command))
    return reported.name if reported else None


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("git commit -m 'first'", "git commit"),
        ("git -C repo -c user.name=x commit -m 'first'", "git commit"),
        ("cd /srv/app && git add . && git commit -m x && git push", "git push"),
        ("mix test 2>&1 | tail -20", "mix test"),
        ("git log --oneline | head -5", "git log"),
        ("ls src | wc -l", "ls"),
        ("cat notes.txt | grep todo", "cat"),
        ("echo '{}' | bd import", "bd import"),
        ("cat data.json | python load.py", "python"),
        ("curl -s http://localhost | python -c 'import json'", "curl"),
        ("make build || true", "make build"),
        ("ls docs 2>/dev/null || echo 'no docs'", "ls"),
        ("[ -d app ] || git clone https://example.org/app", "git clone"),
        ("test -f x && make", "make"),
        ("npm ci; npm run build; echo done", "npm run build"),
        ("git status\ngit diff", "git diff"),
        ("sleep 5 && docker compose ps", "docker compose ps"),
        ("for f in *.py; do ruff check $f; done", "ruff check"),
        ("if [ -f Makefile ]; then make test; else npm test; fi", "make test"),
        ("(cd web && npm install)", "npm install"),
        ("cd somewhere", "cd"),
        ("X=$(git rev-parse HEAD)", "git rev-parse"),
        ("cat <<'EOF' > run.py\nprint(1)\nEOF\npython run.py", "python"),
        ("git commit -m \"$(cat <<'EOF'\nlong message\nEOF\n)\"", "git commit"),
        ("", None),
        ("# only a comment", None),
        ("A=1", None),
    ],
)
def test_the_program_whose_outcome_the_call_reports(command: str, name: str | None) -> None:
    assert reported_name(command) == name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("sudo -u app env A=1 timeout 10 npm run test:e2e", "npm run test:e2e"),
        ("time -p make -j 4 all", "make all"),
        ("nohup ./server.sh &", "server.sh"),
        ("bash -lc 'cd x && cargo test --all'", "cargo test"),
        ("sh -c \"bash -c 'go vet ./...'\"", "go vet"),
        ("pwsh -NoProfile -Command 'Set-Location web; npm test'", "npm test"),
        ("powershell.exe -ExecutionPolicy Bypass -c npm test", "npm test"),
        ("powershell 'npm test'", "npm test"),
        ("cmd /c 'npm test'", "npm test"),
        ("cmd.exe //d //c npm test", "npm test"),
        ("pwsh -File build.ps1", "pwsh"),
        ("pwsh build.ps1", "pwsh"),
        ("powershell -enc YQA=", "powershell"),
        ("/mnt/c/Windows/git.exe push", "git push"),
        ("uv run --with httpx pytest -k slow tests", "pytest"),
        ("poetry run python -m mypy src", "mypy"),
        ("pnpm -r --filter web exec tsc --noEmit", "tsc"),
        ("python3.12 -m pip install requests", "pip install"),
        ("npx -y vitest run", "vitest"),
        ("bundle exec rspec spec", "rspec"),
        ("/usr/local/bin/python3 tool.py", "python"),
        ("./gradlew assemble", "gradlew assemble"),
        ("python manage.py migrate", "manage.py migrate"),
        ("GIT_PAGER=cat git log", "git log"),
    ],
)
def test_wrappers_are_taken_off(command: str, name: str) -> None:
    assert reported_name(command) == name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("gh pr create --title x", "gh pr create"),
        ("docker compose -f a.yml up -d", "docker compose up"),
        ("kubectl -n prod get pods", "kubectl get"),
        ("mix ecto.migrate", "mix ecto.migrate"),
        ("internal-tool show 5", "internal-tool show"),
        ("grep test file.txt", "grep"),
        ("pytest tests", "pytest"),
        ("mkdir build", "mkdir"),
        ("mytool alpha", "mytool"),
        ("mix test test/app_test.exs", "mix test"),
        ("open src/main.py 10", "open"),
    ],
)
def test_only_programs_that_have_subcommands_get_one(command: str, name: str) -> None:
    assert reported_name(command) == name


def test_operands_options_and_redirections_are_told_apart() -> None:
    (command,) = shell.parse_commands("git commit --amend -m 'a message' \"src/a b.py\" > out.txt 2>&1")
    assert command.operands == ("src/a b.py",)
    assert command.options == ("--amend", "-m=a message")
    assert command.redirections == (">out.txt", "2>&1")
    assert command.writes


@pytest.mark.parametrize(
    ("line", "programs"),
    [
        ("$lines = Get-Content a.ts; $n=3; $lines[$n]", ["Get-Content"]),
        ("$p='src/a.ts'; git add $p", ["git"]),
        ("$ErrorActionPreference = 'Stop'; npm test", ["npm"]),
        ("$lines = Get-Content a.ts\nforeach ($l in $lines) { if ($l -match 'x') { $l } }", ["Get-Content"]),
        ("$i=1; 3..9 | ForEach-Object { $_ + $i }", []),
        ("$log = git log --oneline | Select-Object -First 3; $log", ["git"]),
    ],
)
def test_expressions_and_assignments_of_powershell_are_no_calls(line: str, programs: list[str]) -> None:
    commands = shell.parse_commands(line)
    acting = [
        each.program for each in commands if each.program == "Get-Content" or is_acting(each) or each.program == "git"
    ]
    assert acting == programs


def test_commands_say_how_they_are_joined() -> None:
    links = [(c.program, c.link) for c in shell.parse_commands("cd x && make 2>&1 | tail -3 || true; ls")]
    assert links == [("make", ""), ("tail", "|"), ("true", "||"), ("ls", ";")]


def test_an_edit_with_a_body_is_one_command_whatever_its_body_says() -> None:
    (command,) = shell.parse_commands("edit 1:3\nrm (unbalanced\ngit push\nend_of_edit")
    assert (command.program, command.operands) == ("edit", ("1:3",))


@pytest.mark.parametrize("command", ["(" * 70_000, "'" + "a" * 200_000, '"$(' * 5_000, "if " * 20_000, "make '\x00"])
def test_what_cannot_be_parsed_falls_back_to_its_first_word(command: str) -> None:
    assert len(shell.parse_commands(command)) <= 1


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(command: str) -> None:
    shell.reported_command(shell.parse_commands(command))


def test_words_beyond_ascii_are_read_as_they_are() -> None:
    (command,) = shell.parse_commands("git commit -m 'Grüße 🎉' «наш».py > 出力.txt")
    assert command.options == ("-m=Grüße 🎉",)
    assert command.operands == ("«наш».py",)
    assert command.redirections == (">出力.txt",)


@given(st.text(alphabet="a \n$(){}<\"'\\\u4e2d\U000f2b38\ud800\x85", max_size=80))
def test_here_documents_beyond_ascii_do_not_crash_the_process(text: str) -> None:
    shell.parse_commands(f"cat <<EOF\n{text}<<{text}\n${{{text}")


def test_threads_read_at_the_same_time() -> None:
    answers: list[str | None] = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(reported_name(f"git log -n {n} | head"))) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["git log"] * 8
