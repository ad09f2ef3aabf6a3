"""Learn solutions: which calls fail, what resolves them, and in how many sessions that worked.

Flow, one session: `error_tracker` follows each failed call (`error_line` finds its headline by the `line_kinds`,
`fingerprint` names it, `noise` drops what teaches nothing) until a later call resolves it (`resolution` decides, by
`operation_matching`), and writes `error_records`.
Over all sessions: `fix_description` gives each resolved record the shape of its fix and its words, and `grouping`
turns the records of a fingerprint into a `solution`.

Everything is pure and independent of order: no database, no network, no clock, no model. All stored text is redacted
first. A fingerprint depends on its error's text alone, never on what was read before.
"""
