"""Expressions that ignore case by lower case find what `re.IGNORECASE` finds."""

from __future__ import annotations

import pytest

from consolidator.llm.patterns import AnyCase
from consolidator.memory.calls import harm_rules
from consolidator.memory.solutions import fingerprint, line_kinds

EXPRESSIONS = {
    name: value
    for module in (harm_rules, line_kinds, fingerprint)
    for name, value in vars(module).items()
    if isinstance(value, AnyCase)
}
HOSTILE = """
    urlopen(u)|urlretrieve(u)|requests.get|httpx.post|aiohttp.x|fetch('u')|http.get|https.request
    require('https')|axios|LWP|Net::HTTP|open-uri|file_get_contents("http|socket.x|DownloadString|DownloadFile
    WebClient|Invoke-WebRequest|invoke-restmethod|iwr u|irm u|curl u|wget u|source('http|include("http
    download('http|exec x|eval x|os.system|os.popen|os.execute|subprocess|child_process|spawn|system(|popen
    pty.x|shell_exec|passthru|iex x|Invoke-Expression|Start-Process|importlib|__import__|marshal|Function(
    source(|include(|b64|base64|atob|fromhex|unhexlify|-enc x|-EncodedCommand x|zlib|rot13|rot_13|chr(
    fromCharCode|pack(|post x|put x|data=|files=|json=|environ|.ssh|.env x|.aws|uploadfile|-InFile|send(
    DROP TABLE x|truncate table x|truncate x|delete from x;|dropDatabase|.drop()|deleteMany({})|FLUSHALL|flushdb
    shutil.rmtree|rmSync|rm_rf|Remove-Item x -Recurse|fs.rm x|unlinkSync|os.remove|powershell|pwsh|x -enc x|x -ec x
"""
LINES = """
    Error: x|a TypeError: x|it failed|fatal x|cannot x|can't x|could not x|couldn't x|unable x|not found|no such
    denied|invalid|unknown|undefined|unexpected|unrecognised|missing|refused|timed out|time out|exceeds|exist
    expected|not allowed|conflict|forbidden|unauthorized|aborted|rejected|unsupported|unresolved|already
    ignored by|has no|have no|is not|are not|was not|has not|must|required|too large|too long|illegal|crashed
    mismatch|violates|exhausted|blocked|out of sync|nothing to|0 errors|no error|0 failures|no failed|0 warnings
    no warning|Warning: x|DeprecationWarning|ExperimentalWarning|FutureWarning|UserWarning|RuntimeWarning
    SyntaxWarning|ResourceWarning|ImportWarning|error handling|errors-handler|Diff in x|would reformat x
    2 files would be reformatted|[warn] Code style issues|module|packages|sub-command|subcommands|program
    executable|binaries|library|dependencies|plugin|extension|option|flag|switches|arguments:|requirement|gem
    crate|distribution|formula|driver|interpreter|tool|script|task|recipe
"""
TEXTS = [
    *(
        text.removeprefix("    ")
        for table in (HOSTILE, LINES)
        for line in table.split("\n")
        for text in line.split("|")
    ),
    "--- a\n+++ b",
]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_finds_what_ignoring_case_finds(name: str) -> None:
    expression = EXPRESSIONS[name]

    for text in (spelled for plain in TEXTS for spelled in (plain, plain.upper(), f"{plain} é")):
        for ours, exact in (
            (expression.search, expression.pattern.search),
            (expression.match, expression.pattern.match),
        ):
            ours_match, exact_match = ours(text), exact(text)
            assert (ours_match and ours_match.span()) == (exact_match and exact_match.span()), text


def test_a_name_and_an_escape_keep_their_capitals() -> None:
    match = AnyCase(r"(?P<Name>[A-Z]+)\S\Z").search("AB1")

    assert match is not None
    assert match["Name"] == "ab"
