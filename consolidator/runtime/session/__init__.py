"""What holds of one session: who drives it, what it may cost, what it is made from, what is open in its log."""
