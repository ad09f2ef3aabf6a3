"""Tools that a model may call: their schema, the check of their arguments, and a run that always ends in an Outcome.

Flow: `Toolbox.run` finds the tool, checks what the model wrote and runs the function, and the `Outcome` goes back to
`runtime.turn.tool_calls`, which logs it. `mcp_tools` turns the tools of an MCP server into the same `Tool` objects.

Nothing here reads or writes the log or the database, and no exception of a tool leaves this package: a failure is an
Outcome that the model can read. Only the cancellation of the run itself passes through.
"""
