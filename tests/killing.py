"""A driver that runs the command line and kills itself at a commit that it is told."""
