"""Everything between memory and a language model: the client, prices, token counts, and redaction.

Text flows out through `redaction`, so that no secret leaves the process, and answers come back validated against their
schema. This package keeps no state but a server's dialect: storing, retrying and budgets are the callers' (jobs/model
for the nights, runtime for sessions).
"""

MARKER = "CONSOLIDATOR_MODEL_CALL"  # in the environment of a coding agent that answers a question: our hooks are silent
WORKING_FOLDER = "consolidator-model-call"  # its working directory, below the home: no log of it is imported
