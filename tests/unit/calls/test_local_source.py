"""Whose words a result holds is told by its call: by every argument, option and variable of it, or it is not known."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator.memory.calls.local_source import is_local_source

PROJECT = "/home/ann/shop"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Bash", {"command": "git branch -r"}),
        ("Bash", {"command": "git branch -a"}),
        ("Bash", {"command": "git branch --remotes"}),
        ("Bash", {"command": "git branch -vv"}),
        ("Bash", {"command": "git remote show origin"}),
        ("Bash", {"command": "git remote update"}),
        ("Bash", {"command": "cat /home/bob/.npmrc"}),
        ("Bash", {"command": "cat ~bob/.npmrc"}),
        ("Bash", {"command": "mailtool config"}),
        ("Bash", {"command": "notion settings"}),
        ("Bash", {"command": "heroku config"}),
        ("Bash", {"command": "vercel env ls"}),
        ("Read", {"file_path": "/home/ann/shop/a.md", "url": "docs.example/a"}),
        ("Read", {"path": "a.md", "host": "prod"}),
        ("Grep", {"pattern": "x", "repo": "evil/shop"}),
        ("Glob", {"pattern": "/tmp/**"}),
        ("Bash", {"command": "cat .npmrc", "host": "prod"}),
        ("Bash", {"command": "cat .npmrc", "container": "x"}),
        ("Bash", {"command": "GIT_DIR=/tmp/x git remote -v"}),
        ("Bash", {"command": "NPM_CONFIG_USERCONFIG=/tmp/x npm config get registry"}),
        ("Bash", {"command": "env REGISTRY=evil printenv"}),
        ("Bash", {"command": "export REGISTRY=evil; env"}),
        ("Bash", {"command": "REGISTRY=evil; echo $REGISTRY"}),
        ("Bash", {"command": "sudo -u bob cat .npmrc"}),
        ("Bash", {"command": "su bob -c 'cat .npmrc'"}),
        ("Bash", {"command": "ps aux"}),
        ("Bash", {"command": "jq '\"registry: evil1\"' package.json"}),
        ("Bash", {"command": "sed -n -e 's/.*/registry: evil/p' .npmrc"}),
        ("Bash", {"command": "sed --expression=s/a/evil/p .npmrc"}),
        ("Bash", {"command": "find . -printf 'registry: evil'"}),
        ("Bash", {"command": "stat -c 'registry: evil' ."}),
        ("Bash", {"command": "rg -r 'registry: evil' x ."}),
        ("Bash", {"command": "ls --time-style=+evil"}),
        ("Bash", {"command": "cat ~/.cargo/registry/src/x/README.md"}),
        ("Bash", {"command": "cat ~/.vscode/extensions/x/package.json"}),
        ("Bash", {"command": "cat ~/.thunderbird/x/Inbox"}),
        ("Bash", {"command": "cat ~/.npm/_cacache/x"}),
        ("Read", {"file_path": "/home/eve/.config/pip/pip.conf"}),
        ("Bash", {"command": "git config --list --show-origin --file ../x/config"}),
        ("Bash", {"command": "fly config show"}),
        ("Bash", {"command": "aws-vault env"}),
        ("Bash", {"command": "gmail context"}),
        ("Bash", {"command": "docker context export"}),
        ("Bash", {"command": "column -t -N 'registry: evil' .npmrc"}),
        ("Bash", {"command": "nslookup evil"}),
        ("Bash", {"command": "git remote get-url --all https://x"}),
        ("Read", {"file_path": "/Users/bob/.npmrc"}),
        ("Read", {"file_path": "README.md", "source": "drive"}),
    ],
)
def test_what_may_hold_the_words_of_others_is_not_of_this_machine(tool: str, arguments: Any) -> None:
    assert not is_local_source(tool, arguments, PROJECT)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Bash", {"command": "git branch"}),
        ("Bash", {"command": "git branch --show-current"}),
        ("Bash", {"command": "git remote -v"}),
        ("Bash", {"command": "git remote"}),
        ("Bash", {"command": "git remote get-url origin"}),
        ("Bash", {"command": "cat ~/.npmrc"}),
        ("Read", {"file_path": "/home/ann/.npmrc"}),
        ("Bash", {"command": "npm config get registry"}),
        ("Bash", {"command": "pip config list"}),
        ("Bash", {"command": "docker compose config"}),
        ("Bash", {"command": "helm repo list"}),
        ("Bash", {"command": "kubectl config view"}),
        ("Bash", {"command": "go env GOPROXY"}),
        ("Bash", {"command": "poetry config --list"}),
        ("Bash", {"command": "conda config --show"}),
        ("Read", {"file_path": "/home/ann/shop/a.md", "offset": 5, "limit": 20}),
        (
            "Grep",
            {
                "pattern": "x",
                "path": "/home/ann/shop",
                "output_mode": "content",
                "-n": True,
                "-i": True,
                "glob": "*.py",
                "head_limit": 3,
                "type": "py",
            },
        ),
        ("Glob", {"pattern": "**/*.py"}),
        ("Bash", {"command": "cat .npmrc", "description": "d", "timeout": 5}),
        ("Bash", {"command": "cat .npmrc", "workdir": "/home/ann/shop", "yield_time_ms": 3, "max_output_tokens": 5}),
        ("Bash", {"command": "env | grep -i proxy"}),
        ("Bash", {"command": "jq '.a[\"b-c\"]' package.json"}),
        ("Bash", {"command": "sed -n 1,5p a.toml"}),
        ("Bash", {"command": "LANG=C ls -la"}),
        ("Bash", {"command": "yarn config get registry"}),
        ("Bash", {"command": "sudo cat /etc/hosts"}),
        ("Bash", {"command": "stat pyproject.toml"}),
        ("Bash", {"command": "find . -name '*.toml'"}),
        ("Bash", {"command": "git config --get remote.origin.url"}),
        ("Bash", {"command": "ruff --version"}),
        ("Bash", {"command": "rg -n endpoint src"}),
        ("Bash", {"command": "git status"}),
        ("Bash", {"command": "cat pyproject.toml | head -5"}),
    ],
)
def test_what_reads_this_machine_and_project_is(tool: str, arguments: Any) -> None:
    assert is_local_source(tool, arguments, PROJECT)


@pytest.mark.parametrize(("project", "own"), [("/home/ann/shop", "/home/ann"), ("/src/shop", "/root"), (None, "/root")])
def test_settings_are_those_of_the_sessions_own_account(project: str | None, own: str) -> None:
    homes = ("/home/ann", "/root", "/home/bob", "/Users/ann")
    assert [home for home in homes if is_local_source("Read", {"file_path": f"{home}/.npmrc"}, project)] == [own]
