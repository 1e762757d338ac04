"""`python -m polynsd.cli` is the command line."""

from polynsd.cli import main

main()
