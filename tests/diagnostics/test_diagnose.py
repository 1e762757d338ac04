"""`polynsd diagnose`, and what it says of bad input."""

import json

import numpy as np
import pytest
import torch
from traced_models import make_data, make_model

from polynsd import SheafODE
from polynsd.cli import main
from polynsd.diagnostics import MEASURES, diagnose, open_run, trace_layers
from polynsd.errors import DataError, ShapeError
from polynsd.zoo import GCN

TRAIN = ("train", "--data", "num_nodes=60", "seed=3", "--splits", "2", "--epochs", "3", "--quiet")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    main([*TRAIN, "--hidden-channels", "4", "--out", str(folder)])
    return folder


def test_of_a_training(run, capsys):
    main(["diagnose", str(run), "--json", "--targets", "5", "--model", "1"])
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == {}
    assert found["model"] == "split 1, seed 1"
    assert all(found[name] for name in MEASURES)
    names = {path.name for path in (run / "diagnostics").iterdir()}
    assert names >= {f"{name}.{kind}" for name in MEASURES for kind in ("csv", "png")}
    main(["diagnose", str(run), "--measures", "smoothness", "--max-nodes", "20", "--out", str(run / "x")])
    assert "a region of 20 of 60 nodes" in capsys.readouterr().out


def test_opened_run_gives_what_was_predicted(run):
    opened = open_run(run)
    table = opened.record.predictions()
    for number, model in enumerate(opened.models):
        said = model(opened.data.x, opened.data.edge_index).argmax(-1).tolist()
        assert said == table[table["split"] == number]["prediction"].tolist()
        assert opened.mask(number, "test").sum() == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "2"], "--model must be a number from 0 to 1"),
        (["--measures", "energie"], "Did you mean 'energy'"),
        (["--dataset", "other.npz"], "belongs to another graph"),
    ],
)
def test_mistakes(run, arguments, message, capsys, tmp_path, monkeypatch):
    from polynsd.data import heterophilous_graph, save_graph

    monkeypatch.chdir(tmp_path)
    save_graph(tmp_path / "other.npz", heterophilous_graph(num_nodes=60, seed=4))
    with pytest.raises(SystemExit):
        main(["diagnose", str(run), *arguments])
    assert message in capsys.readouterr().err


def test_run_without_models(tmp_path):
    from polynsd.config import ModelConfig, TrainConfig
    from polynsd.training import Configuration, Source, fit_splits

    problem = Source(data=("num_nodes=40",), splits=1).problem()
    configuration = Configuration(ModelConfig("gcn", hidden_channels=4), TrainConfig(epochs=1))
    fit_splits(problem, configuration, out=tmp_path / "a", keep=False)
    with pytest.raises(DataError, match="without its models"):
        open_run(tmp_path / "a")
    with pytest.raises(DataError, match="no such folder"):
        open_run(tmp_path / "b")


@pytest.mark.parametrize("maps_at", ["state", "start"])
def test_a_model_in_continuous_time_is_seen_after_every_piece_of_time(maps_at):
    """Its states are those of the solver, layer by layer, and all layers together have exp(−T m(λ))."""
    model = make_model(2, SheafODE, noise=0.1, horizon=0.5, steps=3, maps_at=maps_at)
    data = make_data()
    trace = trace_layers(model, data)
    assert torch.equal(trace.output, model(data.x, data.edge_index))
    assert trace.layers == (model.layers[0],) * 3 + (model.layers[1],) * 3
    assert (len(trace.states), len(trace.laplacians)) == (7, 7)
    assert (trace.laplacians[0] is trace.laplacians[1]) == (maps_at == "start")
    found = diagnose(model, data, targets=3)
    assert found.problems == {}
    assert "a time of 0.166667" in found.results["energy"].note
    assert set(found.results["influence"].totals) == {"full"}
    assert "not measured in continuous time" in found.results["influence"].note
    m = [
        layer.filter.response(torch.tensor(found.results["response"].curves[0].lam)) for layer in model.layers
    ]
    decay = (-0.5 * (m[0] + m[1])).exp().detach().numpy()
    assert np.allclose(found.results["response"].stack, decay)


def test_an_adaptive_solver_is_stopped_at_some_times_and_says_what_it_cannot():
    pytest.importorskip("torchdiffeq")
    model = make_model(1, SheafODE, noise=0.1, solver="dopri5", tolerance=1e-6)
    found = diagnose(model, make_data())
    assert len(found.results["energy"].values()) == 5
    assert set(found.problems) == {"influence"}
    assert "chooses its steps by values" in found.problems["influence"]


def test_what_cannot_be_measured_says_why_and_the_rest_is_there():
    data = make_data()
    without_layers = diagnose(GCN(5, 4, 2, 3).double(), data)
    assert set(without_layers.results) == {"influence"}
    assert "GCN has no sheaf layers" in without_layers.problems["energy"]
    identity = diagnose(make_model(maps="identity", stalk_dim=2), data)
    assert set(identity.problems) == {"maps"}
    assert "not learned" in identity.problems["maps"]
    alone = diagnose(make_model(), make_data(edges=torch.zeros(2, 0, dtype=torch.long)))
    assert set(alone.problems) == {"maps"}
    assert alone.results["energy"].values() == [0, 0, 0]
    assert alone.results["influence"].range() == 0
    constant = diagnose(make_model(layers=1, degree=0), data)
    assert constant.problems == {}
    assert constant.results["response"].rows[0].sign_changes == 0
    with pytest.raises(ShapeError, match="model of another graph"):
        diagnose(make_model(), data.clone().update({"x": data.x[:, :3]}))


def test_states_that_are_not_finite():
    model = make_model(layers=2)
    with torch.no_grad():
        model.layers[1].shortcut.weight.fill_(torch.nan)
    found = diagnose(model, make_data())
    assert "state X_2" in found.problems["energy"]
    assert "influence" in found.results


def test_pictures_of_a_small_model():
    """One layer, K = 0, no cycles: every picture has its panels and a title."""
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    found = diagnose(make_model(layers=1, degree=0), make_data(edges=edges))
    assert found.problems == {}
    figures = [result.plot() for result in found.results.values()]
    figures += [found.maps.plot_heatmaps(), found.maps.plot_clouds()]
    assert all(figure.axes and figure.get_suptitle() for figure in figures)
