"""What was learned: recall, facts, procedures, solutions, explanations, suggestions, skills, revisions."""
