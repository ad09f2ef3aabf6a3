"""What there is of sessions beside their log: rows, agents, lineage, checkpoints, tasks, credentials."""
