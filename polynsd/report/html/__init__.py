"""`polynsd report`: one HTML file about finished runs, drawn by Plotly, without a network.

    from polynsd.report.html import write_report

    write_report(["runs/texas", "runs/texas-gcn"], "report.html")

Every tab is a module that makes a `Section` of plain blocks (`blocks.py`); `page.py` alone turns them into
HTML and escapes all text, `page.js` draws and searches in the browser. `scores.py` compares a run with
simpler models, `predicted.py` calls its models, `explorer.py` gathers what is embedded of its nodes.
docs/report.md shows the result.
"""

from polynsd.report.html.report import Sources, write_report

__all__ = ["Sources", "write_report"]
