"""What was learned from calls: digests, error records, and the procedures and solutions made of them."""
