"""The page on statistics: its example runs, its rule is the one the tables print."""

import re
from pathlib import Path

import numpy as np

from polynsd.stats import bold_rule, holm, signed_rank

PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")


def test_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(example, {})
    assert "['ours'] Bold: the best mean" in capsys.readouterr().out


def test_rule_is_quoted():
    assert bold_rule() in " ".join(PAGE.replace("\n> ", " ").split())


def test_nine_datasets_cannot_tell_six_models_apart_by_wilcoxon_and_holm():
    least = signed_rank(np.arange(1.0, 10.0)).p
    assert least == 2**-8
    assert holm([least] * 15).min() > 0.05
