"""The filter in other sheaf networks: what is searched, what is measured, what the page says."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from invented_cells import invent_cell

from polynsd.search.space import check_space
from polynsd.zoo import ZOO, model_class
from polynsd_paper.experiment import published_space
from polynsd_paper.experiments.agnostic import AGNOSTIC, BEND, HOSTS, ROWS, TRIALS, WITH_FILTER, measure_bend
from polynsd_paper.experiments.searched import BUDGETS
from polynsd_paper.reports.agnostic import report_gains
from polynsd_paper.tables.formatting import NOT_RUN


@pytest.mark.parametrize("host", HOSTS)
def test_both_rows_are_searched_alike_but_for_the_filter(host):
    plain, filtered = (AGNOSTIC.configure("cora", model=f"{host}{end}") for end in ("", WITH_FILTER))
    extra = {"model.options.degree", "model.options.basis", "model.options.coefficients"}
    assert filtered.plan.rules.keys() - plain.plan.rules.keys() == extra
    assert all(filtered.plan.rules[name] == rule for name, rule in plain.plan.rules.items())
    assert all(filtered.plan.contains(start) for start in filtered.starts)
    assert {name: v for name, v in filtered.starts[0].items() if name not in extra} == dict(plain.starts[0])
    assert ROWS[host].group == ROWS[f"{host}{WITH_FILTER}"].group
    assert AGNOSTIC.budget("cora") == replace(BUDGETS["cora"], trials=TRIALS)


def test_a_space_with_filters_holds_models_that_can_be_built():
    check_space(published_space(ROWS[f"san{WITH_FILTER}"].space()))


@pytest.mark.parametrize("host", ["conn-nsd", "san", "jdsnn"])
def test_a_line_does_not_bend_and_a_parabola_does(host):
    model = model_class(host)(6, 4, 2, 2, degree=2, **ZOO[host].preset)
    problem = SimpleNamespace(data=SimpleNamespace(x=torch.zeros(())))
    assert measure_bend(problem, [model])[BEND] == [pytest.approx(0.0, abs=1e-6)]
    with torch.no_grad():
        for layer in model.layers:
            layer.filter.theta.copy_(torch.tensor([0.0, 0.0, 1.0]))  # T_2 has half a share of a constant
    (bend,) = measure_bend(problem, [model])[BEND]
    assert bend > 0.5


def test_the_page_has_a_line_for_every_network(tmp_path):
    import pandas as pd

    rows = [
        invent_cell("agnostic", graph, 0.7 + 0.05 * (WITH_FILTER in name and graph == "cora"),
                    cell={"model": name}, measured={BEND: [0.2, 0.4]} if WITH_FILTER in name else {})
        for graph in ("texas", "cora")
        for name in ROWS
        if (graph, name) != ("texas", "san")
    ]  # fmt: skip
    text = report_gains(pd.DataFrame(rows), tmp_path)
    lines = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if line.startswith("| ")}
    assert set(HOSTS) < set(lines)
    assert "| **4.9 (" in lines["jdsnn"]
    assert " ≈ |" in lines["jdsnn"]
    assert lines["jdsnn"].endswith("| 0.30 |")
    assert lines["san"].startswith(f"| san | {NOT_RUN} |")
    assert "6 wins, 0 losses, 5 ties, 0 undecided of 11" in text
    assert (tmp_path / "figures" / "agnostic-gains.png").exists()
