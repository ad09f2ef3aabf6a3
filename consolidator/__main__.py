"""`python -m consolidator` is the command `consolidator`."""

from consolidator.cli import main

main()
