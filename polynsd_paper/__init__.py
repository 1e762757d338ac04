"""The reproduction of the paper: experiments, their records, tables, figures and claims.

| question                                                        | file                          |
|-----------------------------------------------------------------|-------------------------------|
| What is an experiment, a cell, a budget?                        | `experiment.py`               |
| Which experiments are there, and which models do they compare?  | `experiments/`                |
| How is a cell searched and trained?                             | `runner.py`                   |
| What is in a record, and in the table of all records?           | `records.py`                  |
| What have others printed for the same cells?                    | `published.py`, two CSV files |
| Which model wins beyond noise; which maps are chosen?           | `leaderboards.py`             |
| Which files does an experiment have, and who writes them?       | `tables.py`                   |
| … its page in Markdown                                          | `experiment_page.py`          |
| … its figures                                                   | `figures.py`                  |
| … its table on the terminal                                     | `terminal.py`                 |
| How are numbers written?                                        | `formatting.py`               |
| How does PolyNSD here compare with the paper, graph by graph?   | `paper_comparison.py`         |
| What does the front page show, and which records does it lack?  | `front_page.py`               |
| Which sections of README and docs are made from records?        | `doc_sections.py`             |
| Does a claim of the paper hold?                                 | `claims/`                     |
| Which cells does `polynsd reproduce` train, and in what order?  | `reproduction.py`             |
| Which options have `polynsd reproduce` and `polynsd claims`?    | `commands/`                   |
"""
