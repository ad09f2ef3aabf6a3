"""Read tool calls: pair each with its result, and say what it did, on what, and with which values.

Flow: `call_pairing` (events to completed calls) -> `symbols` (a call to its symbol; `shell` parses command lines with
the tables of `shell_programs`, `shell_words` reads what needs no parser) -> `columns` (arguments and results to columns
of values) -> `operation` (a call to its operation, operands and the files it writes; `tool_kinds` holds the tables; of
a line that failed `blame` says which program did). `directory`, `installation` and `guards` say where a call runs, what
it installs, and which checks it skips. `argument_redaction` and `argument_summary` hide, shorten and name arguments;
`tool_values` reads them, and names what an approval is about.

Everything is pure: no database, no network, no clock, no model. Nothing here counts, compares sessions or decides
what is published; a result depends on the session's own events alone.
"""
