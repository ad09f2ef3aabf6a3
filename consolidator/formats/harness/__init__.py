"""Reader and writer of harness logs, lossless in both directions.

`reader` streams files and assembles generations; `lines` maps a single line to an event's data and back without any
state. Nothing of a line may be lost: what the mapping cannot restore exactly is kept as the original line.
"""
