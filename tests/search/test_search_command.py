"""`polynsd search` from end to end, and the final test of the configuration chosen on validation."""

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
from polynsd.search import SearchConfig, best_trials, conclude, study, work
from polynsd.search.study import SEED_OFFSET
from polynsd.training.problem import Source

CONFIG = SearchConfig(trials=5, batch=3, startup=2, prune_interval=2)


def command(tmp_path, **options):
    toy_space().save(tmp_path / "small.yaml")
    source = Source(options.pop("dataset", None), data=("num_nodes=60",), splits=2)
    options = {"source": source, "search": CONFIG, "quiet": True, **options}
    return SearchCommand(**{"space": str(tmp_path / "small.yaml"), "out": tmp_path / "out", **options})


def test_from_end_to_end_and_once_more(tmp_path, capsys):
    result = command(tmp_path).run()
    assert "test accuracy" in capsys.readouterr().out
    assert result == json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["trials"] == result["complete"] + result["pruned"] == 5
    assert 0 <= result["final"]["mean"] <= 1
    with (tmp_path / "out" / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5
    assert float(rows[result["chosen"]["trial"]]["value"]) == result["chosen"]["val_mean"]

    more = command(tmp_path, search=SearchConfig(trials=7, batch=3, startup=2, prune_interval=2)).run()
    assert more["trials"] == 7
    assert more["chosen"]["val_mean"] >= result["chosen"]["val_mean"]


def test_best_yaml_is_a_configuration(tmp_path):
    result = command(tmp_path).run()
    best = yaml.safe_load((tmp_path / "out" / "best.yaml").read_text())
    assert from_options(ModelConfig, best["model"]).model == "mlp"
    assert from_options(TrainConfig, best["training"]).epochs == 4
    assert best == {key: result["chosen"][key] for key in ("model", "training")}


def test_best_yaml_trains(tmp_path, capsys):
    result = command(tmp_path).run()
    config = str(tmp_path / "out" / "best.yaml")
    graph = ["--data", "num_nodes=60", "--splits", "2", "--seed", str(SEED_OFFSET), "--quiet"]
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


def test_only_the_chosen_configuration_is_tested(tmp_path, monkeypatch):
    """Once, with new seeds, and not again when asked again."""
    search = toy_search(trials=4)
    work(search)
    real, calls = study.fit_splits, []

    def counting(problem, configuration, **options):
        calls.append((configuration, problem.seed, read_run(options["out"]).state if calls else "new"))
        return real(problem, configuration, **options)

    monkeypatch.setattr(study, "fit_splits", counting)
    result = conclude(tmp_path, search)
    best = best_trials(search)[0]
    chosen = best.configuration
    assert calls == [(chosen, SEED_OFFSET, "new")]
    assert [row["seed"] for row in result["final"]["splits"]] == [SEED_OFFSET, SEED_OFFSET + 1]
    assert result["chosen"]["val_mean"] == best.value == max(trial.value for trial in search.study.trials)
    assert conclude(tmp_path, search)["final"] == result["final"]
    assert calls[1:] == [(chosen, SEED_OFFSET, "finished")]
    run = read_run(tmp_path / f"final-trial-{best.number}")
    assert run.result == result["final"]
    assert len({name.partition(".")[0] for name in run.weights()}) == 2  # splits


def test_nothing_to_choose_is_an_error_with_reasons(tmp_path):
    search = toy_search(trials=2, space=toy_space(model__layer__dropout=[1.5, 2.5]))
    work(search)
    with pytest.raises(ConfigError, match=r"no trial is complete.*dropout must lie"):
        conclude(tmp_path, search)
