"""Commands that query and correct memory: recall, facts, procedures, solutions, explain, next, revisions, mcp.

Arguments in, one function of `service.memory` called, tables or JSON out. No query and no transaction here.
"""
