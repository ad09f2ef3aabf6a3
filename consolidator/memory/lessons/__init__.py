"""Lessons: how a project's commands are run, which calls always fail, and what then works; told to every agent there.

Flow, one session: `trace` folds events into the session's trace, all that is kept of its calls. One person's project:
`learning` turns the latest traces, whichever agents left them, into lessons (`lesson`). `telling` chooses the lessons
for a session's start, a call about to run, and a failed call.

Everything is pure and independent of order: no database, no network, no clock, no model. A trace holds redacted text
only, and lessons are a function of the set of traces, however the sessions were cut into nights.
"""
