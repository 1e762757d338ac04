"""A captured step is the step: warmed up, rehearsed, recorded, replayed, or left as it is."""

import logging
import warnings

import pytest
import torch
from published_block import published
from toy_gpu import ToyGPU

from polynsd import ConfigError, TrainConfig, heterophilous_graph
from polynsd.cli import main
from polynsd.config import load_config, save_config
from polynsd.data import stratified_split
from polynsd.memo import can_read_values
from polynsd.training import CapturedStep, capture, fit, get_task, replicas
from polynsd.training.dropout import DropoutRates

ACCURACY = get_task("accuracy")


@pytest.fixture
def gpu(monkeypatch):
    capture._stream.cache_clear()
    capture._warn.cache_clear()
    yield ToyGPU(monkeypatch)
    capture._stream.cache_clear()


class Descent:
    """A step that halves a parameter on the device and counts how often Python took it."""

    def __init__(self, gpu, also=lambda: None):
        self.gpu, self.also = gpu, also
        self.parameter, self.loss = torch.tensor(1.0), torch.empty(())
        self.calls, self.streams, self.looks, self.draws = 0, [], [], []

    def __call__(self):
        self.calls += 1
        self.streams.append(self.gpu.current)
        self.looks.append(can_read_values())
        self.gpu.launch(lambda: self.loss.copy_(self.parameter))
        self.draws.append(self.gpu.random())
        self.also()
        self.gpu.launch(lambda: self.parameter.mul_(0.5))
        return self.loss


def losses(step, calls):
    return [float(step()) for _ in range(calls)]


def test_every_call_is_one_step_however_it_is_taken(gpu):
    descent = Descent(gpu)
    step = CapturedStep(descent, warmup=3)
    for call in range(8):
        assert (float(step()), float(descent.parameter)) == (0.5**call, 0.5 ** (call + 1))
        assert step.captured == (call >= 3)
    assert step.reason is None
    assert descent.calls == 4  # three times for real, once to be recorded


def test_ordinary_steps_run_aside_and_the_last_of_them_as_if_recorded(gpu):
    descent = Descent(gpu)
    losses(CapturedStep(descent, warmup=3), 5)
    assert descent.streams == ["side"] * 4
    assert descent.looks == [True, True, False, False]
    assert (gpu.current, gpu.sync_mode) == ("default", 0)


def test_a_replay_writes_to_the_same_output(gpu):
    step = CapturedStep(Descent(gpu), warmup=2)
    losses(step, 2)
    assert step() is step()


def test_a_step_that_waits_for_the_device_is_not_recorded(gpu, caplog):
    descent = Descent(gpu, also=gpu.wait)
    step = CapturedStep(descent)
    assert losses(step, 6) == [0.5**call for call in range(6)]
    assert descent.calls == 6
    assert not step.captured
    assert step.reason.startswith("it waits for the GPU at test_capture.py:")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert step.reason in caplog.text


def test_the_place_is_that_of_the_model_though_its_calls_are_intercepted(gpu):
    def wait():  # as PyTorch does from C++: the innermost Python frame is the interception's
        if gpu.sync_mode == "warn":
            warnings.warn("called a synchronizing CUDA operation", stacklevel=2)

    step = CapturedStep(Descent(gpu, also=lambda: DropoutRates().__torch_function__(wait, ())))
    losses(step, 4)
    assert step.reason.startswith("it waits for the GPU at test_capture.py:")


def test_a_look_at_values_is_left_out_and_no_obstacle(gpu):
    step = CapturedStep(Descent(gpu, also=lambda: gpu.wait() if can_read_values() else None))
    losses(step, 4)
    assert step.captured


def failing(gpu, breaks):
    """A step that only fails when it is recorded; `breaks`: so badly that CUDA is left in disorder."""

    def also():
        if gpu.recording is not None:
            if breaks:
                gpu.wait()
            raise RuntimeError("not in a recording.")

    return Descent(gpu, also)


@pytest.mark.parametrize("breaks", [True, False])
def test_a_recording_that_fails_leaves_no_trace(gpu, breaks, caplog):
    descent = failing(gpu, breaks)
    step = CapturedStep(descent, warmup=3)
    assert losses(step, 6) == [0.5**call for call in range(6)]
    assert not step.captured
    reason = "operation not permitted when stream is capturing" if breaks else "not in a recording"
    assert step.reason == reason  # the first error, in one line
    assert len(caplog.records) == 1
    assert (gpu.current, gpu.recording) == ("default", None)
    drawn = [draw for draw, call in zip(descent.draws, range(7), strict=True) if call != 3]
    assert drawn == [1, 2, 3, 4, 5, 6]  # as if the recording had not been tried


@pytest.mark.parametrize("kind", ["waits", "fails"])
def test_where_capture_is_required_a_failure_is_an_error(gpu, kind):
    descent = Descent(gpu, also=gpu.wait) if kind == "waits" else failing(gpu, True)
    step = CapturedStep(descent, required=True)
    with pytest.raises(ConfigError, match=r"capture='on', but the step cannot be recorded: .*\. Use 'auto'"):
        losses(step, 4)


def test_the_same_reason_is_told_once(gpu, caplog):
    for _ in range(2):
        losses(CapturedStep(failing(gpu, True)), 5)
    assert len(caplog.records) == 1


def test_other_warnings_of_a_rehearsal_are_passed_on(gpu):
    step = CapturedStep(Descent(gpu, also=lambda: warnings.warn("mind the gap", stacklevel=1)), warmup=2)
    for _ in range(2):
        with pytest.warns(UserWarning, match="mind the gap"):
            step()
    assert step.reason is None


def test_a_rehearsal_must_not_be_the_first_run():
    with pytest.raises(ConfigError, match="warmup must be an integer of at least 2; got 1"):
        CapturedStep(lambda: torch.zeros(()), warmup=1)


@pytest.mark.parametrize(
    ("mode", "device", "is_captured"),
    [("off", "cuda", False), ("auto", "cpu", False), ("auto", "cuda", True), ("on", "cuda", True)],
)
def test_the_option_and_the_device_decide(mode, device, is_captured):
    def step():
        raise AssertionError("nothing runs before it is called")

    chosen = capture.capture_step(step, mode, torch.device(device))
    assert isinstance(chosen, CapturedStep) if is_captured else chosen is step


# the trainer


@pytest.fixture(scope="module")
def data():
    return heterophilous_graph(60, 2, 5, 4, heterophily=1.0, seed=3).to_pyg()


@pytest.fixture(scope="module")
def split(data):
    return stratified_split(data.y, seed=0)


def small_model():
    return published(5, 4, 1, 2, stalk_dim=2, degree=2, dropout=0.3)


def trained(data, split, mode):
    epochs = []
    config = TrainConfig(epochs=8, patience=8, capture=mode)
    result = fit(small_model, data, split, ACCURACY, config, 5, epochs.append)
    return result, epochs


def static(step):
    """What `record` owes, on a CPU: nothing runs now, a replay runs the step into one fixed tensor."""
    output = []

    def replay():
        value = step()
        output.append(value) if not output else output[0].copy_(value)
        return output[0]

    return replay


def test_training_goes_the_same_way_captured_or_not(data, split, monkeypatch):
    truth, true_epochs = trained(data, split, "off")
    steps = []
    monkeypatch.setattr(capture, "run_aside", lambda step: step())
    monkeypatch.setattr(capture, "rehearse", lambda step: (step(), None))
    monkeypatch.setattr(capture, "record", static)
    monkeypatch.setattr(
        replicas, "capture_step", lambda step, mode, device: steps.append(CapturedStep(step)) or steps[-1]
    )
    result, epochs = trained(data, split, "auto")
    assert [step.captured for step in steps] == [True]
    assert epochs == true_epochs
    assert result.test_metric == truth.test_metric
    for a, b in zip(result.model.parameters(), truth.model.parameters(), strict=True):
        assert torch.equal(a, b)
        assert a.grad is None


def test_on_a_cpu_nothing_is_captured_and_nothing_is_said(data, split, caplog):
    with caplog.at_level(logging.DEBUG, logger="polynsd"):
        (_, first), (_, second) = (trained(data, split, mode) for mode in ("off", "auto"))
    assert first == second
    assert caplog.records == []
    with pytest.raises(
        ConfigError, match=r"capture='on' needs a CUDA device; the data is on 'cpu'\. Use 'auto'"
    ):
        trained(data, split, "on")


def test_the_option_is_checked_and_travels(tmp_path):
    with pytest.raises(ConfigError, match="unknown capture 'yes'; choose from: auto, off, on"):
        TrainConfig(capture="yes")
    for name in ("config.json", "config.yaml"):
        save_config(tmp_path / name, TrainConfig(capture="off"))
        assert load_config(tmp_path / name, TrainConfig).capture == "off"
    (tmp_path / "config.yaml").write_text("capture: on\n")  # a truth value to YAML 1.1, a word to 1.2
    assert load_config(tmp_path / "config.yaml", TrainConfig).capture == "on"


def test_the_command_line_has_it(capsys):
    small = ["train", "--data", "num_nodes=60", "--splits", "1", "--epochs", "1", "--quiet"]
    main([*small, "--capture", "off"])
    with pytest.raises(SystemExit):
        main([*small, "--capture", "on"])
    assert "needs a CUDA device" in capsys.readouterr().err
