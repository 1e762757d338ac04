"""Sections of pages about what an experiment measured inside its models: a function per experiment.

`Experiment.report` names it, `module:function`. It takes the cells of the experiment (`summarize`) and the
folder of results, draws into `figures/`, and returns Markdown for the page.
"""
