"""Tables of the nightly jobs: the ledger of runs, calls of models and their batches, and extraction watermarks.

The jobs write and read them; nothing here decides what is learned. A model's answer is stored as it came: whether it is
valid is decided by its reader.
"""
