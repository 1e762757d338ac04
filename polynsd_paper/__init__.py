"""The reproduction of the paper: experiments, their records, tables, figures and claims.

| question                                                        | file                            |
|-----------------------------------------------------------------|---------------------------------|
| What is an experiment, a cell, a budget?                        | `experiment.py`                 |
| Which experiments are there, and which models do they compare?  | `experiments/`                  |
| Which cells does `polynsd reproduce` train, and in what order?  | `reproduction.py`               |
| How is a cell searched and trained?                             | `runner.py`                     |
| What is in a record, and in the table of all records?           | `records.py`                    |
| What was measured inside trained models, as arrays?             | `measured.py`                   |
| What have others printed for the same cells?                    | `tables/printed_numbers.py`     |
| Which model wins beyond noise; which maps are chosen?           | `tables/leaderboards.py`        |
| How are numbers written, and marked?                            | `tables/formatting.py`, `marks` |
| Which files does an experiment have, and who writes them?       | `tables/writer.py`              |
| … its page in Markdown                                          | `tables/experiment_page.py`     |
| … its figures                                                   | `tables/figures.py`             |
| … its table on the terminal                                     | `tables/terminal.py`            |
| … what was measured inside its models                           | `reports/`                      |
| Does a claim of the paper hold?                                 | `claims/`                       |
| Which sections of README and docs are made from records?        | `pages/doc_sections.py`         |
| … the front page, and which records it lacks                    | `pages/front_page.py`           |
| … PolyNSD here and in the paper, graph by graph                 | `pages/paper_comparison.py`     |
| … what learned maps add, and which parts of the block pay       | `pages/choosing.py`             |
| Which options have `polynsd reproduce` and `polynsd claims`?    | `commands/`                     |

A folder imports what stands before it: experiments, tables, claims, reports, pages.
"""
