"""Learn procedures: what agents do again and again, with the bindings of its arguments, and predict the next call.

Flow, one session: `digest` folds events into counts (`key_counts`) and a cleaned sequence of symbols; on the way
`bindings` counts where arguments come from. One scope: its sessions' counts are added, `key_texts` names
the keys, `patterns` mines the sequences, `tool_profiles` reads the sums, `publication_rule` selects, `publishing`
builds the procedures. `prediction` applies profiles to an open session.

Everything is pure and independent of order: no database, no network, no clock, no model, and the same digests give the
same procedures, however they were cut into nights. No clear value outlives a session except in texts that redaction
left unchanged.
"""
