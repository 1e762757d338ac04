"""A page of ours with a section that is made from records, between two marks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill

import tyro
from tyro.conf import Positional

from polynsd.errors import DataError, PolyNSDError

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
WIDTH = 150


def replace_section(text: str, section: str) -> str:
    """The text with another section between its marks."""
    before, found, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise DataError(f"the page has no place for results; put {BEGIN} and {END} where they belong.")
    return f"{before}{BEGIN}\n{section}\n{END}{after}"


def table_and_text(lines: Sequence[Sequence[str]], sentences: Sequence[str]) -> str:
    """A table, its head first and numbers to the right, and what has to be known to read it."""
    head, *body = lines
    rule = ("---", *("--:" for _ in head[1:]))
    table = "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *body))
    below = fill(" ".join(sentences), WIDTH, break_on_hyphens=False, break_long_words=False)
    return f"{table}\n\n{below}"


def fill_page(
    section: Callable[[Path], str],
    default: str,
    name: str,
    arguments: Sequence[str] | None,
    draw: Callable[[Path], object] = lambda results: None,
) -> None:
    """The command that puts a section on a page; a mistake ends it with one line.

    Args:
        section: made from the folder of results.
        default: the page, unless another is named.
        name: of the command, in its complaints.
        arguments: of the command line.
        draw: makes what the page shows, once the page is written.
    """

    def write(page: Positional[Path] = Path(default), results: Positional[Path] = Path("results")) -> None:
        """Put the section between the marks of a page.

        Args:
            page: the Markdown file.
            results: the folder of `polynsd reproduce`.
        """
        text = page.read_text(encoding="utf-8")
        page.write_text(replace_section(text, section(results)), encoding="utf-8")
        draw(results)

    try:
        tyro.cli(write, args=arguments)
    except (PolyNSDError, OSError) as error:
        sys.exit(f"{name}: {error}")
