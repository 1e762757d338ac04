"""Colours and markers of all pictures."""

OURS, OTHERS, ACCENT = "#1b6ca8", "#9aa5b1", "#d1495b"
BASELINE, RULE = "#4a5560", "#e3e7ea"
COLOURS = (
    "#1b6ca8", "#d1495b", "#2f9e77", "#e09f3e", "#7b5ea7", "#4a5560", "#56b4d3",
    "#a0522d", "#c779a8", "#8a9a3b", "#00595c", "#b5a27c", "#5d1a3a", "#9aa5b1",
)  # fmt: skip
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "p", "*", "d")
