"""Reader of Codex CLI's rollouts.

`reader` streams a file and assigns sessions and keys; `items` turns single items into event drafts without any state.
Text that Codex adds in the user's role must not become a person's message.
"""
