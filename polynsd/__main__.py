"""`python -m polynsd` is the command line."""

from polynsd.cli import main

main()
