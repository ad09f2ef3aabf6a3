"""Tables of tools and programs by what they do: inspect, search, edit, check, poll. Patterns match base names."""

from __future__ import annotations

import re

from consolidator.memory.calls.shell_programs import word_set

EDITING_TOOLS = re.compile(
    r"(?:multi_?|notebook_?|search_?|str_?|apply_?|quick_?)?(?:edit|write|patch|replace|create|insert|update|append)"
    r"(?:_?(?:file|to_file|in_file|notebook|diff|patch|block))?|str_replace_(?:based_edit_tool|editor)|fs_write"
)
READING_TOOLS = re.compile(r"(?:fs_)?(?:read|view|open|cat)(?:_?(?:file|many_files|notebook|lines))?")
INSPECTING_TOOLS = re.compile(
    r"(?:.*_)?(?:grep|glob|ls|find|search|list)(?:_?(?:files?|dir(?:ectory)?|search|code|symbols?))?|codebase_search"
    r"|web_?fetch|web_?search|fetch|todo_?read|bashoutput|taskoutput"
)
THINKING_TOOLS = re.compile(r"(?:sequential_?)?think(?:ing)?|(?:update_)?plan|todo_?write|reason(?:ing)?")
_BOOKKEEPING_TOOLS = re.compile(  # of the harness: they do none of the work
    r"todo_?(?:write|read)|(?:update_|write_)?plan|(?:enter|exit)planmode|task(?:create|update|list|get|output|stop)?"
    r"|agent(?:outputtool)?|(?:spawn|wait|close)_agent|askuserquestion|request_user_input|toolsearch|skill|slashcommand"
    r"|(?:kill|bash)(?:shell|bash|output)|(?:enter|exit)worktree|write_stdin|structuredoutput|schedulewakeup|think\w*"
)
POLLING_TOOLS = re.compile(r"(?:kill|bash)(?:shell|bash|output)|write_stdin|task(?:output|stop)|agentoutputtool")
SEARCHING_TOOLS = re.compile(r"(?:.*_)?(?:grep|glob|find|search)(?:_?(?:files?|code|symbols?))?|codebase_search")
PATH_KEYS = ("file_path", "path", "filePath", "notebook_path", "filename", "file", "target_file", "absolute_path")
SETTING_KEYS = re.compile(
    r"timeout\w*|limit|offset|page\w*|max_\w+|head_limit|description|block|wait\w*|explanation|-[A-Za-z]", re.IGNORECASE
)

INSPECTING_PROGRAMS = word_set(
    """
    ls cat head tail wc find fd tree grep egrep fgrep rg ag ack stat file du df pwd which whereis type less more bat
    nl od xxd hexdump strings diff cmp ps top readlink realpath open goto search_dir search_file find_file jq yq eza
    exa scroll_up scroll_down
    """
)
INSPECTING_SUBCOMMANDS = {  # subcommands that change nothing
    "git": word_set("status log diff show blame ls-files ls-tree branch grep reflog rev-parse describe")
}
SHOWING_PROGRAMS = word_set("cat bat head tail less more nl sed awk type get-content gc")  # the lines of a file
SEARCHING_PROGRAMS = word_set(  # exit with 1 when they find nothing, or find a difference
    """
    grep egrep fgrep rg ag ack zgrep find fd which type command pgrep test [ [[ diff cmp ls-files search_dir
    search_file find_file
    """
)
SEARCHING_SUBCOMMANDS = {"git": word_set("grep diff check-ignore ls-files config show-ref merge-base")}

WRITING_PROGRAMS = word_set("sed cat echo printf tee perl awk patch apply_patch touch ed ex")
FILE_PROGRAMS = word_set("cp mv rm mkdir rmdir ln chmod chown touch rsync scp install tar unzip zip gunzip trash")

INTERPRETERS = word_set(
    "python node ruby perl php tsx ts-node deno bun bash sh zsh lua psql mysql sqlite3 duckdb elixir"
)
INLINE_CODE_OPTIONS = word_set("-c -e -p --eval -r -ne -pe -lc")  # options whose value is code for an interpreter
CHECKING_PROGRAMS = word_set(
    """
    pytest mypy pyright ruff flake8 black eslint prettier tsc jest vitest mocha rspec tox nox phpunit biome tsgo
    """
)
CHECKING_SUBCOMMANDS = re.compile(  # subcommands that check their operands, or everything
    r"\b(?:test|tests|check|lint|format|fmt|build|compile|typecheck|vet|spec|credo|dialyzer|clippy|bench)\b"
)

SQL_VERB = re.compile(
    r"\s*(?:\(\s*)?(select|insert|update|delete|create|alter|drop|show|describe|desc|explain|with|use|pragma)\b", re.I
)
STOP_WORDS = word_set(  # words of any query or piece of code: they identify nothing
    """
    select from where order group by asc desc join on and or not in as inner left right outer having limit count
    distinct union all insert into values set is null like between case when then else end exists max min sum avg
    import print def return python node eof if for while true false none null self const let var function console
    log require await async try except catch with open read json sys os str int len dict list data result cat echo
    """
)
COMMON_FILE_NAMES = word_set(  # names in many folders: one elsewhere is not the same file
    "index main mod lib init __init__ readme package setup config makefile dockerfile types utils test tests app"
)


def is_bookkeeping(name: str) -> bool:
    """Whether a tool, by its base name, keeps the harness's books: no step of any work."""
    return _BOOKKEEPING_TOOLS.fullmatch(name) is not None


def tool_base_name(tool: str) -> str:
    """Return a tool's name without its MCP server, in lower case: "read_file" for "mcp__files__Read_File"."""
    return tool.rsplit("__", 1)[-1].lower()
