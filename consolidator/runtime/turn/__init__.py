"""A session's turn: plan, generate, run tools, deliver, until nothing is open; and what people say into it."""
