"""Compares the locked packages with a database of known vulnerabilities, and says so when there is none.

pip-audit counts a package that the database does not know as skipped, not as an error. So a network without
the database would look like a clean result.
"""

import json
import subprocess
import sys
from pathlib import Path

LOCKS = sorted(str(path) for path in Path(__file__).parent.glob("*.txt") if path.name != "pins.txt")
CLEAN, VULNERABLE, UNKNOWN = 0, 1, 3


def main() -> int:
    """The exit code: 0 clean, 1 vulnerable, 3 not all packages could be looked up."""
    options = ["--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json"]
    command = [sys.executable, "-m", "pip_audit", *options, *(f"--requirement={lock}" for lock in LOCKS)]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        print(f"NOT AUDITED: no database of vulnerabilities could be reached ({last[:200]}).")
        return UNKNOWN
    known = [package for package in packages if "skip_reason" not in package]
    found = [(package, problem) for package in known for problem in package["vulns"]]
    for package, problem in found:
        fixed = ", ".join(problem["fix_versions"]) or "no version yet"
        print(f"{package['name']} {package['version']}: {problem['id']}, mended in {fixed}")
    print(f"{len(known)} of {len(packages)} packages looked up, {len(found)} known vulnerabilities.")
    if found:
        return VULNERABLE
    if len(known) < len(packages):
        missing = (
            "no database of vulnerabilities could be reached" if not known else "the rest is unknown to it"
        )
        print(f"NOT AUDITED: {missing}.")
        return UNKNOWN
    return CLEAN


if __name__ == "__main__":
    sys.exit(main())
