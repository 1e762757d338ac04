"""What a run keeps, refuses and remembers."""

import json

import numpy as np
import pandas
import pytest
import torch
from fake_training import CONFIG, INPUTS, content, train
from fuzzing import seal_again

from polynsd.errors import ConfigError, DataError
from polynsd.runs import Run, read_run, runs_table

pytestmark = pytest.mark.usefixtures("quick")


def start(folder, config=CONFIG, inputs=INPUTS, **options):
    return Run.start(folder, "protocol", config, inputs, **options)


def test_a_finished_run_gives_its_result_back(tmp_path):
    first = train(tmp_path / "deep" / "er" / "run")
    with start(tmp_path / "deep" / "er" / "run") as run:
        assert run.result == first
        with pytest.raises(ConfigError, match="has finished"):
            run.log({"epoch": 1})
        with pytest.raises(ConfigError, match="has finished"):
            run.finish({}, {})


def test_everything_is_read_back(tmp_path):
    table = pandas.DataFrame({"id": ["a", "b"], "p": [0.1, 0.25]})
    result = train(tmp_path / "run", table=table)
    record = read_run(tmp_path / "run")
    assert (record.kind, record.config, record.inputs) == ("protocol", CONFIG, INPUTS)
    assert (record.result, record.state) == (result, "finished")
    assert record.timings["seconds"] == 0.1
    assert len(record.environment) == 1
    assert torch.equal(record.weights()["w"], record.weights()["tied"])
    assert float(record.weights()["w"].mean()) == result["mean"]
    pandas.testing.assert_frame_equal(record.predictions(), table)
    assert [line["epoch"] for line in record.metrics()] == [e for e in range(1, 6) for _ in range(2)]


def test_another_configuration_is_refused_key_by_key(tmp_path):
    train(tmp_path / "run")
    before = content(tmp_path / "run")
    other = {"model": {"name": "fake"}, "training": {"epochs": 7, "learning_rate": 0.1, "decay": None}}
    with pytest.raises(ConfigError) as refusal:
        train(tmp_path / "run", other, {**INPUTS, "splits": ["0f"]})
    assert str(refusal.value).splitlines()[1:] == [
        "  config.model.width: 3 there, (absent) here",
        "  config.training.decay: (absent) there, null here",
        "  config.training.epochs: 5 there, 7 here",
        '  inputs.splits: ["0f","1e"] there, ["0f"] here',
        "Choose another folder.",
    ]
    assert content(tmp_path / "run") == before


def test_many_differences_are_counted(tmp_path):
    train(tmp_path / "run")
    with pytest.raises(ConfigError, match="and 15 more"):
        train(tmp_path / "run", {**CONFIG, **{f"option-{n}": n for n in range(25)}})


def test_a_folder_with_something_else_is_not_touched(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"holds no run: it contains thesis\.tex"):
        train(tmp_path)
    assert content(tmp_path) == {"thesis.tex": b"years of work"}
    with pytest.raises(ConfigError, match="is a file"):
        train(tmp_path / "thesis.tex")


def test_an_empty_folder_will_do(tmp_path):
    train(tmp_path)
    assert read_run(tmp_path).state == "finished"


def test_every_session_is_remembered(tmp_path):
    for _ in range(3):
        with start(tmp_path / "run"):
            pass
    train(tmp_path / "run")
    train(tmp_path / "run")  # finished: no session any more
    assert len(read_run(tmp_path / "run").environment) == 4


def test_lines_after_the_last_snapshot_are_kept_until_the_run_goes_on(tmp_path):
    with start(tmp_path / "run", snapshot_seconds=0) as run:
        run.log({"epoch": 1})
        run.snapshots.offer(lambda: {"w": torch.ones(1)})
        run.log({"epoch": 2})
    assert [line["epoch"] for line in read_run(tmp_path / "run").metrics()] == [1, 2]
    with start(tmp_path / "run", snapshot_seconds=0):
        assert [line["epoch"] for line in read_run(tmp_path / "run").metrics()] == [1]


def test_snapshots_wait_for_their_time(tmp_path, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("polynsd.runs.snapshots.time.monotonic", lambda: clock[0])
    taken = []
    with start(tmp_path / "run", snapshot_seconds=5) as run:
        for clock[0] in (100.0, 104.9, 105.0, 106.0, 109.9, 110.0):
            run.snapshots.offer(lambda: taken.append(clock[0]) or {"w": torch.ones(1)})
    assert taken == [105.0, 110.0]


def test_slow_snapshots_come_less_often(tmp_path, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("polynsd.runs.snapshots.time.monotonic", lambda: clock[0])
    taken = []

    def slow():
        taken.append(clock[0])
        clock[0] += 3
        return {"w": torch.ones(1)}

    with start(tmp_path / "run", snapshot_seconds=5) as run:
        for clock[0] in (105.0, 115.0, 135.0, 138.0):
            run.snapshots.offer(slow)
    assert taken == [105.0, 138.0]


@pytest.mark.parametrize("value", [torch.ones(1), np.float32(1), {1, 2}, object()])
def test_only_plain_data_is_configuration(tmp_path, value):
    with pytest.raises(ConfigError, match="plain data"):
        train(tmp_path / "run", {"value": value})
    assert not (tmp_path / "run").exists()


def test_tuples_and_numbers_as_keys_come_back_as_json_has_them(tmp_path):
    first = train(tmp_path / "run", {"sizes": (1, 2), "by": {1: float("nan")}})
    assert train(tmp_path / "run", {"sizes": [1, 2], "by": {"1": float("nan")}}) == first


def test_what_is_not_finite_is_null_in_every_file(tmp_path):
    diverged = {"val": float("nan"), "losses": [1.5, float("inf"), -float("inf")]}
    with start(tmp_path / "run", {"rate": float("inf")}) as run:
        run.log(diverged)
        run.finish(diverged, {}, timings={"rate": float("nan")})
        assert run.result == {"val": None, "losses": [1.5, None, None]}
    for path in (tmp_path / "run").glob("*.json*"):
        for line in [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines():
            json.loads(line, parse_constant=pytest.fail)
    record = read_run(tmp_path / "run")
    assert (record.result, record.metrics()) == (run.result, [run.result])
    assert len(runs_table(tmp_path)) == 1


def test_files_that_say_nan_are_still_read(tmp_path):
    first = train(tmp_path / "run", {"rate": float("nan")})
    path = tmp_path / "run" / "config.json"
    content = path.read_text()
    assert "null" in content
    path.write_text(content.replace("null", "NaN"))
    seal_again(tmp_path / "run")
    assert read_run(tmp_path / "run").config["rate"] is None
    assert train(tmp_path / "run", {"rate": float("nan")}) == first


def test_seconds_cannot_be_negative(tmp_path):
    with pytest.raises(ConfigError, match="snapshot_seconds"):
        train(tmp_path / "run", snapshot_seconds=-1)


def test_an_unfinished_run_has_no_weights_yet(tmp_path):
    with start(tmp_path / "run"):
        pass
    with pytest.raises(DataError, match="has not finished"):
        read_run(tmp_path / "run").weights()
    train(tmp_path / "run")
    with pytest.raises(DataError, match="without predictions"):
        read_run(tmp_path / "run").predictions()


def test_result_is_sorted_and_exact(tmp_path):
    with start(tmp_path / "run") as run:
        run.finish({"z": 0.1 + 0.2, "a": 1e-310}, {})
    text = (tmp_path / "run" / "result.json").read_text()
    assert text.index('"a"') < text.index('"z"')
    assert json.loads(text)["result"] == {"z": 0.1 + 0.2, "a": 1e-310}


def test_keys_that_only_look_alike_are_another_configuration(tmp_path):
    train(tmp_path / "run", {"a": {"b": 1}})
    with pytest.raises(ConfigError, match="another run"):
        train(tmp_path / "run", {"a.b": 1})


def test_a_copy_of_a_finished_run_without_its_lock_is_enough(tmp_path):
    result = train(tmp_path / "run")
    (tmp_path / "run" / "lock").unlink()
    assert train(tmp_path / "run") == result
    assert not (tmp_path / "run" / "lock").exists()


def test_the_last_line_of_the_metrics_may_be_in_the_making(tmp_path):
    with start(tmp_path / "run") as run:
        run.log({"epoch": 1})
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"epo')
    assert read_run(tmp_path / "run").metrics() == [{"epoch": 1}]
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(DataError, match=r"line 2 of .*metrics\.jsonl is damaged"):
        read_run(tmp_path / "run").metrics()
    (tmp_path / "run" / "metrics.jsonl").write_text("3\n")
    with pytest.raises(DataError, match=r"line 1 .* expected a JSON object"):
        read_run(tmp_path / "run").metrics()


def test_snapshots_are_what_the_trainer_asks_for(tmp_path):
    from polynsd.training import Snapshots

    methods = [name for name in vars(Snapshots) if not name.startswith("_")]
    with start(tmp_path / "run") as run:
        assert set(methods) == {"load", "offer"}
        assert all(callable(getattr(run.snapshots, name)) for name in methods)


def test_finished_parts_are_kept_until_there_is_a_result(tmp_path):
    config = {"seed": 1}
    with Run.start(tmp_path / "run", "model", config, {}) as run:
        run.parts.append({"name": "first"}, {"w": torch.ones(2)})
        run.parts.append({"name": "second"}, {})
    with Run.start(tmp_path / "run", "model", config, {}) as run:
        (first, tensors), (second, _) = run.parts.load()
        assert (first, second) == ({"name": "first"}, {"name": "second"})
        assert torch.equal(tensors["w"], torch.ones(2))
        run.finish({}, {})
    assert not (tmp_path / "run" / "parts").exists()


def test_a_part_that_is_damaged_or_of_another_run_is_told(tmp_path):
    with Run.start(tmp_path / "a", "model", {"seed": 1}, {}) as run:
        run.parts.append({}, {"w": torch.ones(2)})
        path = run.parts.folder / "0000.safetensors"
    with Run.start(tmp_path / "b", "model", {"seed": 2}, {}) as run:
        run.parts.folder.mkdir()
        (run.parts.folder / path.name).write_bytes(path.read_bytes())
        with pytest.raises(DataError, match=r"another configuration.*Delete it"):
            run.parts.load()
        (run.parts.folder / path.name).write_bytes(path.read_bytes()[:-1])
        with pytest.raises(DataError, match=r"damaged.*Delete it"):
            run.parts.load()
