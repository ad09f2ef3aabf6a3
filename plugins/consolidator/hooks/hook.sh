#!/bin/sh
# Runs the hook of the consolidator that is installed; its arguments are the event and the agent. Always ends with 0.
# Says nothing where `consolidator install` has put its own hooks, and at a session's start what is missing.
event=$1 agent=$2

tell() {
    [ "$event" = SessionStart ] && printf '{"systemMessage": "consolidator: %s"}\n' "$1"
    exit 0
}

case $agent in
    codex) own=${CODEX_HOME:-$HOME/.codex}/hooks.json ;;
    *) own=${CLAUDE_CONFIG_DIR:-$HOME/.claude}/settings.json ;;
esac
grep -qs consolidator/hooks/program.py "$own" && exit 0

launcher=$(command -v consolidator) || tell "not installed yet: pipx install 'consolidator[mcp]', or uv tool install 'consolidator[mcp]'"
# The interpreter stands in the launcher's first line or, where its path is long, in the second.
python=$(sed -n "1s/^#! *//p; 2s/^'''exec' \"\{0,1\}\([^\"]*[^\" ]\)\"\{0,1\} \"\$0\".*/\1/p" "$launcher" 2>/dev/null | grep python | head -n 1)
[ -x "$python" ] || tell "the program $launcher names no Python: install it by pipx, uv tool or pip"

home=${CONSOLIDATOR_HOME:-}
if [ -z "$home" ]; then
    case $(uname) in
        Darwin) home="$HOME/Library/Application Support/consolidator" ;;
        *) home=${XDG_DATA_HOME:-$HOME/.local/share}/consolidator ;;
    esac
fi
if [ ! -d "$home" ] && [ "$event" = SessionStart ] && mkdir -p -m 700 "$home"; then
    tell "memory begins now, in $home; \`consolidator import\` reads earlier sessions at once, a night does so by itself"
fi

program=consolidator.hooks.program
[ "$event" = PreToolUse ] && program=consolidator.hooks.warn
"$python" -E -P -m "$program" "$home" "$event" "$agent"
exit 0
