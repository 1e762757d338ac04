"""`polynsd report`: one file with all parts, nothing of the user executed, and what is missing said."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from scipy import sparse

from polynsd.cli import main
from polynsd.cli.report import add_report
from polynsd.data import Graph
from polynsd.data.datasets.archive import save_graph
from polynsd.data.splits import Masks
from polynsd.diagnostics import open_run
from polynsd.errors import ConfigError, DataError
from polynsd.report.html import explorer, report, write_report
from polynsd.report.html.blocks import Text, plot_text, shorten
from polynsd.report.html.layout import place_nodes
from polynsd.report.html.page import encode_data
from polynsd.report.html.predicted import try_predict
from polynsd.report.html.scores import find_references, find_score
from polynsd.training import protocol

KEYS = ["result", "graph", "training", "quality", "frequencies", "reach", "maps", "nodes"]
TINY = (
    "train",
    "--data",
    "num_nodes=40",
    "--splits",
    "1",
    "--epochs",
    "2",
    "--quiet",
    "--hidden-channels",
    "4",
)


class Outline(HTMLParser):
    """The tags of a page, without what stands in scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def read_data(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def sections_of(run):
    """All sections of one run, by key."""
    found = find_score(run, {})
    return {section.key: section for section in report._describe(run, found, 5000, lambda _: None)[0]}


def problems(section):
    return " ".join(b.text for b in section.blocks if isinstance(b, Text) and b.kind == "problem")


def test_the_file_needs_nothing_else_and_holds_all_parts(page):
    text = page.read_text(encoding="utf-8")
    outline = Outline(text)
    assert page.stat().st_size < 8e6
    assert not any(tags.get("src") or tags.get("href", "#")[0] not in "#d" for _, tags in outline.tags)
    assert "default-src 'none'" in text
    ids = [tags.get("id") for _, tags in outline.tags]
    assert [name[6:] for name in ids if name and name.startswith("panel-")] == [*KEYS, "compare"]
    plots = [tags for tag, tags in outline.tags if tags.get("role") == "img"]
    assert all(tags["aria-labelledby"] in ids and tags["aria-describedby"] in ids for tags in plots)
    assert sum(tag == "script" for tag, _ in outline.tags) == 3


def test_charts_are_valid_for_plotly(page):
    go = pytest.importorskip("plotly.graph_objects")

    def paint(value, is_colour=False):
        if isinstance(value, list):
            return [paint(item, is_colour) for item in value]
        if isinstance(value, dict):
            return {key: paint(item, "color" in key) for key, item in value.items()}
        return "#123456" if is_colour and str(value).startswith("$") else value

    charts = read_data(page)["charts"]
    assert len(charts) > 30
    for chart in charts:
        go.Figure(paint(chart["data"]), paint(chart["layout"]))


def test_what_is_embedded_is_what_was_predicted(runs, page):
    nodes = read_data(page)["nodes"][0]
    run = open_run(runs.ours, strict=False)
    table = run.record.predictions()
    assert nodes["prediction"] == table[table["split"] == 0]["prediction"].tolist()
    assert nodes["truth"] == run.data.y.tolist()
    assert nodes["degree"] == np.bincount(run.data.edge_index[0], minlength=60).tolist()
    for row, neighbours in enumerate(nodes["neighbours"]["rows"]):
        around = set(run.data.edge_index[1][run.data.edge_index[0] == row].tolist())
        assert {entry[0] for entry in neighbours} <= around
        assert len(neighbours) == min(10, len(around))
    received = [sum(entry[1] for entry in rows) for rows in nodes["neighbours"]["rows"] if 0 < len(rows) < 10]
    assert np.allclose(received, 1, atol=0.05)


def test_what_is_explained_is_gradient_times_value(runs, page):
    opened = open_run(runs.ours, strict=False)
    model, data = opened.models[0].double(), opened.data
    entry = read_data(page)["nodes"][0]["explained"]["7"]
    x = data.x.double().requires_grad_()
    top = model(x, data.edge_index)[7].topk(2).values
    (gradient,) = torch.autograd.grad(top[0] - top[1], x)
    effects = (gradient * x).detach()
    assert entry["own"] == pytest.approx(float(effects[7].sum()), rel=5e-3)
    assert entry["others"] == pytest.approx(float(effects.sum() - effects[7].sum()), rel=5e-3)
    assert [effect for _, effect in entry["nodes"]] == pytest.approx(
        effects.sum(-1)[[node for node, _ in entry["nodes"]]].tolist(), rel=5e-3
    )
    strongest = effects[7].abs().sort(descending=True).values[: len(entry["features"])]
    assert [abs(row[2]) for row in entry["features"]] == pytest.approx(strongest.tolist(), rel=5e-3)


def test_scored_rows_of_a_fit_are_those_of_its_summary(runs):
    run = open_run(runs.fit, strict=False)
    predicted, _ = try_predict(run)
    tested = predicted.tested
    summary = run.result["summary"]
    assert len(tested.node) == summary["rows"]["scored"]
    assert np.isclose((tested.prediction == tested.truth).mean(), summary["estimate"]["score"])
    assert (predicted.part == 2).sum() == summary["rows"]["predicted"]


def test_rivals_are_runs_on_the_same_splits(runs, page):
    text = page.read_text(encoding="utf-8")
    assert "against plain GCN" in text
    assert "gcn against ours" in text
    assert "these runs cannot be compared: the dataset is" in text
    ours, gcn = (open_run(folder, strict=False) for folder in (runs.ours, runs.gcn))
    elsewhere = replace(gcn, record=replace(gcn.record, inputs={**gcn.record.inputs, "splits": []}))
    found = find_references(ours, [ours, gcn, elsewhere], lambda _: None)
    assert found == ({"gcn": gcn.result["mean"]}, "")


def test_simpler_models_are_trained_where_that_is_quick(runs):
    run = open_run(runs.ours, strict=False)
    found = find_score(run, *find_references(run, [run], lambda _: None))
    assert set(found.rivals) == {"the most frequent class", "features alone", "plain GCN"}
    assert all(0 <= score <= 1 for score in found.rivals.values())
    assert "every split" in found.note
    run.data.num_nodes = 10**6
    found = find_score(run, *find_references(run, [run], lambda _: None))
    assert found.rivals["plain GCN"] is None


def test_large_graphs_are_sampled_and_every_prediction_is_found(runs, monkeypatch):
    run = open_run(runs.ours, strict=False)
    predicted, _ = try_predict(run)
    nodes = explorer.gather_nodes(run, predicted, drawn=20)
    assert len(nodes.data["ids"]) == 60
    assert len(nodes.data["neighbours"]["rows"]) == len(nodes.data["features"]["rows"]) == 20
    assert "20 of 60 nodes are drawn" in nodes.drawing_note
    monkeypatch.setattr(explorer, "SEARCHABLE", 30)
    nodes = explorer.gather_nodes(run, predicted, drawn=20)
    assert len(nodes.data["ids"]) == len(nodes.data["prediction"]) == 20
    assert "20 of 60 nodes can be found" in nodes.note


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_features_of_any_scale_have_a_deviation(kind):
    values = np.random.default_rng(0).normal(size=(60, 3)) * [1, 1e-30, 1e30]
    graph = Graph("g", np.zeros((2, 0), int), 60, x=kind(values.astype(np.float32)))
    found = explorer._strongest_features(graph, np.arange(60), ("a", "b", "c"))
    assert "c" in found["names"]
    assert np.isfinite(np.array(found["rows"])).all()


def test_text_of_a_user_stays_text():
    hostile = {"name": "</script><!-- \u2028 & \ud800", "id": "x" * 10_000}
    encoded = encode_data(hostile)
    assert not set("<>&\u2028") & set(encoded)
    assert json.loads(encoded)["id"] == hostile["id"]
    assert len(shorten(hostile["id"], 120)) == 120
    assert plot_text("<b>a</b>\n%{x}") == "&lt;b&gt;a&lt;/b&gt; %{x}"


def test_without_models_the_rest_is_there(tmp_path):
    from polynsd import ModelConfig, TrainConfig
    from polynsd.training import Configuration, Source

    problem = Source(data=("num_nodes=40",), splits=1).problem()
    training = Configuration(ModelConfig(hidden_channels=4), TrainConfig(epochs=2))
    protocol.fit_splits(problem, training, out=tmp_path / "run", keep=False)
    sections = sections_of(open_run(tmp_path / "run", strict=False))
    for key in KEYS[3:7]:
        assert "finished without its models" in problems(sections[key])
    assert problems(sections["graph"]) == ""
    assert "accuracy" in sections["result"].blocks[0].text.lower()


def test_models_that_diverged_and_models_of_another_graph(runs, monkeypatch):
    run = open_run(runs.ours, strict=False)
    for parameter in run.models[0].parameters():
        parameter.data.fill_(float("nan"))
    sections = sections_of(run)
    assert "NaN" in problems(sections["quality"])
    assert "NaN" in problems(sections["maps"])
    assert problems(sections["training"]) == ""
    other = replace(run, graph=None, models=(), data=None, problems=(DataError("belongs to another graph"),))
    assert "another graph" in problems(sections_of(other)["graph"])
    same = open_run(runs.ours, dataset="nowhere.npz", strict=False)
    assert "nowhere.npz" in problems(sections_of(same)["quality"])


@pytest.mark.parametrize(
    "options",
    [
        ("--num-layers", "1", "--degree", "0"),
        ("--maps", "identity", "--model", "identity-sheaf"),
        ("--model", "mlp"),
    ],
)
def test_small_and_plain_models_have_a_report(tmp_path, options):
    main([*TINY, *options, "--out", str(tmp_path / "run")])
    sections = sections_of(open_run(tmp_path / "run", strict=False))
    assert problems(sections["quality"]) == ""
    if "identity" in options:
        assert "identity" in problems(sections["maps"])
    if "mlp" in options:
        assert "no sheaf layers" in problems(sections["frequencies"])


def test_a_graph_without_edges_and_numbers_to_predict(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)).astype(np.float32), rng.normal(size=40).astype(np.float32)
    parts = np.arange(40)[None] % 4
    masks = {"default": Masks(parts < 2, parts == 2, parts == 3)}
    file = save_graph(tmp_path / "lonely.npz", Graph("lonely", np.zeros((2, 0), np.int64), 40, x, y, masks))
    train = ["train", "--dataset", str(file), "--epochs", "2", "--quiet", "--hidden-channels", "4"]
    main([*train, "--out", str(tmp_path / "run")])
    sections = sections_of(open_run(tmp_path / "run", dataset=str(file), strict=False))
    assert "has no edges" in problems(sections["graph"])
    assert "no edges" in problems(sections["maps"])
    assert "Predicted against true" in [getattr(block, "title", "") for block in sections["quality"].blocks]


def test_no_failure_of_the_report_harms_the_run(runs, monkeypatch, tmp_path):
    assert add_report(tmp_path / "nothing").startswith("no report was written")
    monkeypatch.setattr("polynsd.cli.report.find_spec", lambda name: None)
    assert "pip install 'polynsd[report]'" in add_report(runs.ours)
    with pytest.raises(ConfigError, match="at least one run"):
        write_report([], tmp_path / "x.html")


@pytest.mark.parametrize("edges", [[], [[0, 1], [1, 2], [2, 0], [3, 4]]])
def test_every_node_has_a_place_of_its_own(edges):
    place = place_nodes(7, np.array(edges, dtype=np.int64).reshape(-1, 2))
    assert np.isfinite(place).all()
    assert np.abs(place).max() <= 1
    assert len(np.unique(place.round(6), axis=0)) == 7
