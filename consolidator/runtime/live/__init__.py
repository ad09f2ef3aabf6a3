"""Following sessions live: their events, and the pieces of answers, as they are committed."""
