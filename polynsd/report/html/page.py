"""The page: sections to HTML. All text is escaped here; all data is JSON that no browser takes for HTML."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from polynsd.optional import load_optional
from polynsd.report.html.blocks import Block, Chart, Section, Table, Text, Widget

# no network: a page may run its own script and show what it draws, nothing else
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; worker-src blob:"
)
GLOSSARY = (
    ("graph", "nodes, and edges that join some of them"),
    ("sheaf", "a graph in which every edge has maps that turn what one end says into the words of the other"),
    ("frequency", "how much a pattern over the nodes changes from neighbour to neighbour"),
    ("homophily", "the share of edges whose ends have one class"),
    ("confidence", "the probability that the model gives to its prediction"),
    (
        "split",
        "which nodes are learned from, which choose the epoch (validation) and which give the score (test)",
    ),
)


def load_plotly() -> str:
    """The script of Plotly, as its package brings it."""
    return str(load_optional("plotly.offline", "a report needs", "report").get_plotlyjs())


def make_page(
    names: Sequence[str],
    sections: Sequence[Sequence[Section]],
    comparison: Section | None,
    nodes: Sequence[dict[str, Any] | None],
    refused: Sequence[Text],
    plotly: str,
) -> str:
    """The HTML file.

    Args:
        names: of the runs.
        sections: of every run, the same keys in the same order.
        comparison: the last tab, where there are several runs.
        nodes: what is embedded of the nodes of every run.
        refused: why runs that were named are not here.
        plotly: its script.
    """
    charts: list[dict[str, Any]] = []
    panels, buttons = [], []
    for tab in zip(*sections, strict=True):  # the section of every run
        bodies = [
            f'<div class="run" data-run="{run}"><p class="run-name" dir="auto">{_escape(name)}</p>'
            f"{_blocks(section.blocks, charts, run)}</div>"
            for run, (name, section) in enumerate(zip(names, tab, strict=True))
        ]
        panels.append(_panel(tab[0], "".join(bodies)))
        buttons.append(_tab(tab[0]))
    if comparison is not None:
        panels.append(_panel(comparison, _blocks(comparison.blocks, charts, 0)))
        buttons.append(_tab(comparison))
    listed = ", ".join(names)
    return TEMPLATE.format(
        policy=POLICY,
        title=_escape(f"PolyNSD report: {listed}"[:200]),
        style=_read("page.css"),
        subtitle=_escape(listed),
        runs=_run_choice(names),
        tabs="".join(buttons),
        refused="".join(_block(text, charts, 0) for text in refused),
        panels="".join(panels),
        glossary="".join(f"<dt>{_escape(word)}</dt><dd>{_escape(text)}</dd>" for word, text in GLOSSARY),
        data=encode_data({"charts": charts, "nodes": list(nodes), "names": list(names)}),
        plotly=plotly,
        script=_read("page.js"),
    )


def encode_data(content: Any) -> str:
    """JSON that can stand inside a script element, whatever is in it."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode()  # lone surrogates have no bytes


def _read(name: str) -> str:
    return files("polynsd.report.html").joinpath(name).read_text(encoding="utf-8")


def _escape(text: str) -> str:
    return html.escape(str(text).encode("utf-8", "replace").decode())


def _tab(section: Section) -> str:
    return (
        f'<button role="tab" type="button" id="tab-{section.key}" aria-controls="panel-{section.key}" '
        f'aria-selected="false" tabindex="-1">{_escape(section.title)}</button>'
    )


def _panel(section: Section, body: str) -> str:
    return (
        f'<section role="tabpanel" id="panel-{section.key}" aria-labelledby="tab-{section.key}" tabindex="0">'
        f"<h2>{_escape(section.title)}</h2>{body}</section>"
    )


def _run_choice(names: Sequence[str]) -> str:
    if len(names) == 1:
        return ""
    options = "".join(f'<option value="{i}">{_escape(name)}</option>' for i, name in enumerate(names))
    return f'<label class="choice">Run <select id="run">{options}</select></label>'


def _blocks(blocks: Sequence[Block], charts: list[dict[str, Any]], run: int) -> str:
    return '<div class="blocks">' + "".join(_block(block, charts, run) for block in blocks) + "</div>"


def _block(block: Block, charts: list[dict[str, Any]], run: int) -> str:
    if isinstance(block, Text):
        role = ' role="note"' if block.kind != "lead" else ""
        return f'<p class="text {block.kind}" dir="auto"{role}>{_escape(block.text)}</p>'
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Chart):
        return _chart(block, charts)
    return _widget(block, run)


def _table(table: Table) -> str:
    head = ""
    if any(table.header):
        cells = "".join(f'<th scope="col">{_escape(name)}</th>' for name in table.header)
        head = f"<thead><tr>{cells}</tr></thead>"
    body = "".join(
        "<tr>"
        + f'<th scope="row" dir="auto">{_escape(row[0])}</th>'
        + "".join(f'<td dir="auto">{_escape(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in table.rows
    )
    size = "wide" if table.is_wide else ""
    return (
        f'<figure class="card table {size}"><figcaption class="title">{_escape(table.title)}</figcaption>'
        f'<div class="scroll" tabindex="0"><table>{head}<tbody>{body}</tbody></table></div></figure>'
    )


def _chart(chart: Chart, charts: list[dict[str, Any]]) -> str:
    number = len(charts)
    charts.append({"data": list(chart.traces), "layout": chart.layout, "height": chart.height})
    return (
        f'<figure class="card chart {"wide" if chart.is_wide else ""}">'
        f'<h3 class="title" id="title-{number}">{_escape(chart.title)}</h3>'
        f'<figcaption id="see-{number}" dir="auto">{_escape(chart.sentence)}</figcaption>'
        f'<div class="plot" data-chart="{number}" role="img" aria-labelledby="title-{number}" '
        f'aria-describedby="see-{number}" style="height:{chart.height}px"></div></figure>'
    )


def _widget(widget: Widget, run: int) -> str:
    template = {"drawing": DRAWING, "explorer": EXPLORER}[widget.kind]
    return template.format(run=run, sentence=_escape(widget.sentence))


DRAWING = """<figure class="card wide drawing" data-run="{run}">
<h3 class="title" id="drawing-title-{run}">The graph</h3>
<figcaption id="drawing-see-{run}">{sentence}</figcaption>
<div class="row"><label class="choice">Colour <select class="colour"></select></label>
<span class="hint">Drag to move, scroll to zoom, click a node to look at it.</span></div>
<div class="plot" role="img" aria-labelledby="drawing-title-{run}" aria-describedby="drawing-see-{run}"
style="height:560px"></div></figure>"""

EXPLORER = """<div class="card wide explorer" data-run="{run}">
<p class="see">{sentence}</p>
<form class="row" role="search"><label class="choice grow">Node
<input type="search" class="query" autocomplete="off" spellcheck="false" placeholder="id of a node"
dir="auto"></label>
<button type="submit">Show</button><button type="button" class="any">Any node</button></form>
<ul class="suggestions" aria-label="Nodes that match"></ul>
<p class="found" role="status" aria-live="polite"></p>
<div class="node"></div></div>"""

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the report</a>
<header>
<div><h1>PolyNSD report</h1><p class="subtitle" dir="auto">{subtitle}</p></div>
<div class="row">{runs}<button type="button" id="theme" aria-pressed="false">Dark</button>
<button type="button" id="print">Print</button></div>
</header>
<nav role="tablist" aria-label="Parts of the report">{tabs}</nav>
<main id="main">{refused}{panels}
<details class="card glossary"><summary>Words</summary><dl>{glossary}</dl></details>
<noscript><p class="text problem">Pictures need JavaScript; tables and sentences are all here.</p></noscript>
</main>
<script type="application/json" id="data">{data}</script>
<script>{plotly}</script>
<script>{script}</script>
</body>
</html>
"""
