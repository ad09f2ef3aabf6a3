"""Rules are read from the output of checks by the form in which tools print them, and nothing else is."""

from __future__ import annotations

import pytest

from consolidator.memory.lessons.headlines import MAX_RULES, find_rules


@pytest.mark.parametrize(
    ("output", "rules"),
    [
        (" at src/cart.ts:12:7 lint/style/noNestedTernary  FIXABLE  ━━━━━", ["lint/style/noNestedTernary"]),
        (
            "/a/b.ts\n  12:5  error  'x' is unused  @shop/no-unused\n  1:1  warning  Bad  curly",
            ["@shop/no-unused", "curly"],
        ),
        (
            "\x1b[31msrc/a.ts:4:5\x1b[0m lint/style/useConst ━━━\r\ncart.go:1:2: bad (errcheck)\r\n",
            ["lint/style/useConst", "errcheck"],
        ),
        ("./a/cart.tsx\n12:5  Warning: 'x' is never used.  no-unused", ["no-unused"]),
        ("shop/cart.py:1:2: F401 [*] `os` imported\nshop/cart.py:8:101: E501 Too long", ["F401", "E501"]),
        ("F401 [*] `os` imported but unused\n --> shop/cart.py:1:8\n", ["F401"]),
        ('shop/cart.py:12: error: Argument 1 has incompatible type "str"  [arg-type]', ["arg-type"]),
        ("cart.go:12:3: result is not checked (errcheck)\n\tw.Write(b)", ["errcheck"]),
        ("  = note: `-D clippy::needless-return` implied by `-D warnings`", ["clippy::needless_return"]),
        ("  = help: to override `-D warnings` add `#[allow(clippy::needless_return)]`", ["clippy::needless_return"]),
        (
            "docs/a.md:3:81 MD013/line-length Long\ndocs/b.md:1 error MD041/first-h1 No",
            ["MD013/line-length", "MD041/first-h1"],
        ),
        ("rm $x\n   ^-- SC2086 (info): Double quote\nrun.sh:3:4: note: Quote [SC2046]", ["SC2086", "SC2046"]),
        ("   info • Unused import • lib/cart.dart:1:8 • unused_import", ["unused_import"]),
        ("app/cart.rb:1:2: C: [Correctable] Style/StringLiterals: Prefer", ["Style/StringLiterals"]),
        ("cart.c:3:4: warning: unused variable 'x' [-Wunused-variable]", ["-Wunused-variable"]),
        ("src/cart.ts(1,2): error TS2345: Argument\nCart.cs(3,4): error CS0103: No name", []),
        ("Error: boom\n    at run (/a/b/cart.js:12:3)\n    at tests/cart.test.ts:12:3 > cart > adds", []),
        ("shop/cart.py:12: note: See the pages (and run this now)", []),
        ("shop/cart.py:12: a key in code: [redacted:github-token]", []),
        ("src/a.ts:1:2 assist/source/organizeImports  FIXABLE  ━━━", []),
    ],
)
def test_a_rule_is_known_by_its_place(output: str, rules: list[str]) -> None:
    assert find_rules(output) == rules


def test_the_names_of_one_output_have_a_bound_whatever_it_prints() -> None:
    assert len(find_rules("\n".join(f"a.go:{n}:1: bad (rule{n})" for n in range(900)))) == MAX_RULES
    assert find_rules(f"a.go:1:1: bad ({'x' * 90})") == []
    for part in ("a.b:1 ", "\n", " = note: ", "A/", "x.ts:1:2 foo (bar\n", "1:1 error  ", "x.ts:1:1:1 ("):
        find_rules(part * (60_000 // len(part)))
