"""What agents are told of memory unasked, and what is withheld from them."""
