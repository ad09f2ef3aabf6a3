"""Kill the program at every commit of an import, a night and a pruning, and prove that the next run makes it whole."""
