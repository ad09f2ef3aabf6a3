"""Memory for programs: `from consolidator import Memory`; a front end with a typed result of each call."""
