"""Commands that query and correct memory: recall, facts, procedures, solutions, explain, next, revisions, mcp."""
