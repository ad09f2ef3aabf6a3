"""Sessions that come from other ones: children of every kind, what they inherit, and checkpoints to restore from."""
