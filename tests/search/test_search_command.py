"""`polynsd search` from end to end."""

import csv
import json

import pytest
import yaml
from toys import toy_search, toy_space

from polynsd.cli import main
from polynsd.cli.search import SearchCommand
from polynsd.config import ModelConfig, TrainConfig, from_options
from polynsd.errors import ConfigError
from polynsd.runs import read_run
from polynsd.search import SearchConfig, conclude, work
from polynsd.search.final import FINAL_SEED
from polynsd.training.source import Source

CONFIG = SearchConfig(trials=5, batch=3, startup=2, prune_interval=2)


def command(tmp_path, **options):
    toy_space().save(tmp_path / "small.yaml")
    source = Source(options.pop("dataset", None), data=("num_nodes=60",), splits=2)
    options = {"source": source, "search": CONFIG, "quiet": True, **options}
    return SearchCommand(**{"space": str(tmp_path / "small.yaml"), "out": tmp_path / "out", **options})


def test_from_end_to_end_and_once_more(tmp_path, capsys):
    result = command(tmp_path).run()
    told = capsys.readouterr().out
    assert "test accuracy" in told
    numbers = [finalist["trial"] for finalist in result["finalists"]]
    assert f"trials {', '.join(map(str, numbers))}" in told
    assert result == json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["trials"] == result["complete"] + result["pruned"] == 5
    assert 0 <= result["final"]["mean"] <= 1
    with (tmp_path / "out" / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5
    assert [float(rows[n]["value"]) for n in numbers] == [each["search"] for each in result["finalists"]]
    assert result["chosen"]["trial"] == numbers[0]

    more = command(tmp_path, search=SearchConfig(trials=7, batch=3, startup=2, prune_interval=2)).run()
    assert more["trials"] == 7
    best = [max(each["search"] for each in some["finalists"]) for some in (result, more)]
    assert best[1] >= best[0]


def test_best_yaml_is_a_configuration(tmp_path):
    result = command(tmp_path).run()
    text = (tmp_path / "out" / "best.yaml").read_text()
    best = yaml.safe_load(text)
    for finalist in result["finalists"]:
        assert f"# trial {finalist['trial']}: {finalist['search']:.4f} in the search" in text
    assert from_options(ModelConfig, best["model"]).model == "mlp"
    assert from_options(TrainConfig, best["training"]).epochs == 4
    assert best == {key: result["chosen"][key] for key in ("model", "training")}


def test_best_yaml_trains(tmp_path, capsys):
    result = command(tmp_path).run()
    config = str(tmp_path / "out" / "best.yaml")
    graph = ["--data", "num_nodes=60", "--splits", "2", "--seed", str(FINAL_SEED), "--quiet"]
    main(["train", "--config", config, *graph, "--out", str(tmp_path / "run")])
    assert read_run(tmp_path / "run").result["mean"] == result["final"]["mean"]
    with pytest.raises(SystemExit):
        main(["train", "--config", config, "--rules", "paper", *graph])
    assert "--config holds training rules already" in capsys.readouterr().err


def test_json_is_one_object_per_line(tmp_path, capsys):
    command(tmp_path, json=True).run()
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["search", *["trial"] * 5, "result"]
    assert "test" not in json.dumps(events[:-1])


def test_helpers_leave_the_test_to_others(tmp_path):
    with pytest.raises(ConfigError, match="needs the --storage"):
        command(tmp_path, final=False).run()
    storage = f"sqlite:///{tmp_path}/shared.db"
    assert command(tmp_path, final=False, storage=storage, out=tmp_path / "none").run() is None
    assert not (tmp_path / "none").exists()
    assert command(tmp_path, storage=storage).run()["trials"] == 5


def test_arguments_of_a_generator_need_a_generator(tmp_path):
    with pytest.raises(ConfigError, match="leave it out"):
        command(tmp_path, dataset="texas").run()


def test_nothing_to_choose_is_an_error_with_reasons(tmp_path):
    search = toy_search(trials=2, space=toy_space(model__layer__dropout=[1.5, 2.5]))
    work(search)
    with pytest.raises(ConfigError, match=r"no trial is complete.*dropout must lie"):
        conclude(tmp_path, search)
