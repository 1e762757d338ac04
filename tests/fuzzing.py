"""Broken and forged files: how many a test tries, and the seals of runs.

`POLYNSD_FUZZ_CASES=100` makes them a hundred times as many.
"""

import json
import os

from polynsd.runs.record import SEALED, write_manifest

FACTOR = int(os.environ.get("POLYNSD_FUZZ_CASES", "1"))


def fuzz_cases(usual):
    """The number of cases of a test that usually tries so many."""
    return usual * FACTOR


def seal_again(folder):
    """Makes the manifest of a run agree with its files, as whoever forges one would."""
    write_manifest(
        folder, {name: (folder / name).read_bytes() for name in SEALED if (folder / name).is_file()}
    )


def repeatable_hashes(folder):
    """The hashes of those files of a finished run that are the same in every repetition."""
    files = json.loads((folder / "manifest.json").read_bytes())["files"]
    return {name: digest for name, digest in files.items() if name not in ("result.json", "environment.json")}
