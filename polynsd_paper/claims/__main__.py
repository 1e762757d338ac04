"""`python -m polynsd_paper.claims`: the same as `polynsd claims`."""

from __future__ import annotations

import sys

from polynsd.cli import main

if __name__ == "__main__":
    main(["claims", *sys.argv[1:]])
