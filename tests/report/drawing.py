"""A clock that tests move, and the picture of a view as text."""

import io

from rich.console import Console, Group


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def drawn(view):
    """The picture as text; nothing is wider than the screen."""
    width = view.console.width
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(Group(*view.draw()))
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    return [line.rstrip() for line in lines]
