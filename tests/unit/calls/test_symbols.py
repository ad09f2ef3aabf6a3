"""What a call is called."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator.memory.calls.operation import Operation, parse_operations
from consolidator.memory.calls.symbols import read_call, shell_command, tool_symbol


@pytest.mark.parametrize(
    ("tool", "arguments", "symbol"),
    [
        ("Read", {"file_path": "/a"}, "Read"),
        ("Bash", {"command": "cd x && git commit -m y 2>&1 | tail -3", "description": "commit"}, "sh:git commit"),
        ("bash", {"cmd": "ls -la"}, "sh:ls"),
        ("shell", {"command": ["bash", "-lc", "cargo test | head"]}, "sh:cargo test"),
        ("shell", {"command": ["git", "push"]}, "sh:git push"),
        ("shell", {"command": ["pwsh.exe", "-NoLogo", "-Command", "cargo test | Out-String"]}, "sh:cargo test"),
        ("shell", {"command": [r"C:\PS\pwsh.exe", "-ep", "Bypass", "-c", "cargo", "test"]}, "sh:cargo test"),
        ("shell", {"command": ["cmd.exe", "/s", "/c", "cargo test"]}, "sh:cargo test"),
        ("shell", {"command": ["pwsh", "-NoProfile", "-EncodedCommand", "YQA="]}, "sh:pwsh"),
        ("shell", {"command": ["pwsh", "-File", "build.ps1"]}, "sh:pwsh"),
        ("execute_bash", "make test", "sh:make test"),
        ("mcp__dev__run_command", {"command": "pytest -q"}, "sh:pytest"),
        ("bash", {"command": "cat > a.py <<'EOF'\nx\nEOF"}, "sh:cat >"),
        ("bash", {"command": ""}, "sh:-"),
        ("bash", {"restart": True}, "bash"),
        ("bash", None, "bash"),
        ("get_user_details", {"command": "not a shell"}, "get_user_details"),
        ("bash", {"command": "mise run lint"}, "sh:mise run lint"),
        ("bash", {"command": "just test"}, "sh:just test"),
        ("bash", {"command": "cargo xtask dist --all"}, "sh:cargo xtask dist"),
        ("bash", {"command": "deno task check"}, "sh:deno task check"),
        ("bash", {"command": "wrap bun run test"}, "sh:bun run test"),
        ("bash", {"command": "rtk proxy git status"}, "sh:git status"),
        ("bash", {"command": "brew install git"}, "sh:brew install"),
        ("bash", {"command": "which git"}, "sh:which"),
        ("bash", {"command": "pgrep bun"}, "sh:pgrep"),
    ],
)
def test_the_symbol_of_a_call(tool: str, arguments: Any, symbol: str) -> None:
    assert tool_symbol(tool, arguments) == symbol


PATCH = "*** Begin Patch\n*** Update File: shop/cart.ts\n@@\n-const name = \"a b\";\n+const name = 'c';\n*** End Patch"


@pytest.mark.parametrize(
    "command",
    [
        ["apply_patch", PATCH],
        ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"],
        f"cd shop && apply_patch <<'EOF'\n{PATCH}\nEOF",
        ["pwsh.exe", "-NoLogo", "-Command", f"apply_patch '{PATCH}'"],
    ],
)
def test_a_patch_that_a_shell_applies_is_an_edit_of_its_files(command: Any) -> None:
    tool, arguments = read_call("shell", {"command": command})
    assert tool == "apply_patch"
    assert parse_operations(tool, arguments) == [Operation("edit", "", ("shop/cart.ts",))]


def test_a_call_that_only_names_a_patch_is_none() -> None:
    in_powershell = {"command": ["pwsh.exe", "-Command", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]}  # it has no such thing
    document, quoted = f"apply_patch <<'EOF'\n{PATCH}\nEOF", f"apply_patch '{PATCH}'"
    with_others = [{"command": line} for line in (f"{document}\nnpm test", f"{quoted} && npm test")]
    for call in ({"command": "grep -rn apply_patch ."}, in_powershell, *with_others):
        assert read_call("shell", call) == ("shell", call)


def test_an_argument_vector_is_quoted_where_it_must_be() -> None:
    assert shell_command("shell", {"command": ["git", "commit", "-m", "two words"]}) == "git commit -m 'two words'"
