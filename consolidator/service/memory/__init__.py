"""What was learned: recall, facts, procedures, solutions, explanations, suggestions, skills, revisions.

Front ends call in; queries go to `store.memory` and `store.search`, scores and texts come from `memory`. Corrections
of a person commit here, under the agent's lock. Nothing is deleted: facts are superseded.
"""
