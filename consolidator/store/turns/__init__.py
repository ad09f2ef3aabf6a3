"""What a turn writes and reads: its steps, leases, generations, spends, contexts, and what is due."""
