"""Installs torch in the version of torch.txt: the registry's wheels by hash, another build as it comes.

A build with a local version, such as 2.13.0+cpu, is offered only by a source that this machine's pip has been
told to use. Its hash is printed, because there is none to compare it with.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path(__file__).with_name("torch.txt")


def pip_install(*arguments: str) -> None:
    """`pip install` of wheels, without a word unless it fails."""
    options = ("--quiet", "--disable-pip-version-check", "--only-binary", ":all:")
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *arguments], check=True)


def find_offer(requirement: str, report: Path) -> dict[str, Any]:
    """What pip would install for the requirement, without what that needs."""
    pip_install("--dry-run", "--ignore-installed", "--no-deps", "--report", str(report), requirement)
    found: dict[str, Any] = json.loads(report.read_text())["install"][0]
    return found


def main(report: Path) -> None:
    """Args: report: a file for pip's report."""
    requirement = re.findall(r"^torch==\S+", LOCK.read_text(), re.MULTILINE)[0]
    offer = find_offer(requirement, report)
    version = offer["metadata"]["version"]
    if requirement == f"torch=={version}":
        pip_install("--no-deps", "--require-hashes", "--requirement", str(LOCK))
        return
    pip_install(f"torch=={version}")
    digest = offer["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256", "unknown")
    print(f"torch {version} is a build of this machine's own source: {LOCK.name} cannot vouch for it.")
    print(f"Its SHA-256 is {digest}.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
