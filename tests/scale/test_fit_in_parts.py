"""Training in parts: with exact halos an epoch's gradient is the full batch's; the seed decides the rest."""

import pytest
import torch
from published_block import published
from scale_graphs import awkward_graph, path_graph, thirds

from polynsd import TrainConfig, heterophilous_graph
from polynsd.errors import ConfigError, DataError
from polynsd.scale import Halos, fit_in_parts, members, partition, predict_in_parts, receptive_field
from polynsd.scale.halo import PartHalos
from polynsd.scale.inference import core_output
from polynsd.training import fit, get_task
from polynsd.zoo import GCN

TASK = get_task("accuracy")


def small():
    return published(5, 3, 2, 3, degree=1, stalk_dim=2)


def doubled():
    return small().double()


def history(run, *args, **options):
    epochs = []
    result = run(*args, on_epoch=epochs.append, **options)
    return result, torch.tensor([[e.train_loss, e.val_loss, e.val_metric] for e in epochs]), epochs


def gradients(loss, model):
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


def test_gradients_of_the_parts_add_up_to_the_full_batch():
    data, train = awkward_graph(), thirds(40).train
    torch.manual_seed(0)
    model = doubled()
    full = gradients(TASK.loss(model(data.x, data.edge_index)[train], data.y[train]), model)
    total = torch.zeros_like(full)
    for core in members(partition(data, 5)):
        halo = Halos(data).around(core, receptive_field(model))
        output = model(halo.data.x, halo.data.edge_index)[: halo.num_core]
        if (chosen := train[core]).any():
            loss = TASK.loss(output[chosen], data.y[core][chosen]) * chosen.sum() / train.sum()
            total += gradients(loss, model)
    assert torch.allclose(total, full, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{"update": "epoch"}, {"parts_per_step": 4}])
@pytest.mark.parametrize("build", [doubled, lambda: GCN(5, 4, 2, 3).double()])
def test_one_update_per_epoch_is_full_batch_training(build, options):
    data, split = awkward_graph(), thirds(40)
    config = TrainConfig(epochs=8, learning_rate=0.02, sheaf_decay=0.01)
    one, expected, _ = history(fit, build, data, split, TASK, config, seed=3)
    other, found, _ = history(fit_in_parts, build, data, split, TASK, config, num_parts=4, seed=3, **options)
    assert torch.allclose(found, expected, atol=1e-6)
    assert (one.best_epoch, one.epochs) == (other.best_epoch, other.epochs)
    assert other.test_metric == pytest.approx(one.test_metric)
    assert other.val_loss == pytest.approx(one.val_loss, abs=1e-6)


def test_the_seed_decides_and_the_global_state_is_left():
    data, split = awkward_graph(dtype=torch.float32), thirds(40)
    build = lambda: published(5, 3, 1, 3, degree=1, stalk_dim=2, dropout=0.3)  # noqa: E731
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    runs = [
        history(
            fit_in_parts, build, data, split, TASK, TrainConfig(epochs=5), num_parts=6, depth=1, seed=seed
        )
        for seed in (1, 1, 2)
    ]
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(runs[0][1], runs[1][1])
    assert not torch.equal(runs[0][1], runs[2][1])
    assert runs[2][0].seed == 2


def test_the_best_epoch_is_restored_and_patience_ends_it():
    data, split = awkward_graph(dtype=torch.float32), thirds(40)
    config = TrainConfig(epochs=60, patience=4, select="loss", learning_rate=0.05)
    result, _, epochs = history(fit_in_parts, small, data, split, TASK, config, num_parts=4)
    assert result.epochs == min(60, result.best_epoch + 4) == len(epochs)
    assert min(e.val_loss for e in epochs) == result.val_loss == epochs[result.best_epoch - 1].val_loss
    assert [e.epoch for e in epochs if e.is_best][-1] == result.best_epoch
    output = predict_in_parts(result.model, data, 3)
    assert float(TASK.loss(output[split.val], data.y[split.val])) == pytest.approx(result.val_loss, rel=1e-4)
    assert TASK.score(output[split.test], data.y[split.test]) == result.test_metric
    assert not result.model.training
    assert all(p.grad is None for p in result.model.parameters())


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
def test_it_learns_with_shallow_halos_in_every_precision(precision):
    data, split = heterophilous_graph(300, heterophily=0.9, seed=0).to_pyg(), thirds(300)
    build = lambda: published(data.num_features, 8, 1, int(data.y.max()) + 1, degree=2, stalk_dim=2)  # noqa: E731
    config = TrainConfig(epochs=15, learning_rate=0.02)
    result = fit_in_parts(
        build, data, split, TASK, config, num_parts=6, depth=1, eval_depth="exact", precision=precision
    )
    majority = torch.bincount(data.y).max() / 300
    assert result.test_metric > majority + 0.15


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize(("select", "other"), [("auc", "accuracy"), ("acc", "roc_auc")])
def test_what_selects_may_differ_from_the_metric(select, other):
    """As in full-batch training, which it then is."""
    data, split = awkward_graph(), thirds(40)
    data.y = data.y.clamp(max=1)
    task, build = get_task(other), lambda: published(5, 3, 2, 2, degree=1, stalk_dim=2).double()
    config = TrainConfig(epochs=15, patience=15, learning_rate=0.05, select=select)
    one, _, expected = history(fit, build, data, split, task, config, seed=1)
    result, _, epochs = history(
        fit_in_parts, build, data, split, task, config, num_parts=3, seed=1, update="epoch"
    )
    assert [e.is_best for e in epochs] == [e.is_best for e in expected]
    assert (result.best_epoch, result.val_metric) == (one.best_epoch, one.val_metric)
    best = max(e.val_metric for e in epochs)
    assert any(e.val_metric == best and not e.is_best for e in epochs) or result.val_metric < best


def test_precision_is_that_of_the_rules_and_of_training_only(monkeypatch):
    data, split = awkward_graph(dtype=torch.float32), thirds(40)
    seen = set()

    def watched(model, halo, device):
        seen.add((model.training, torch.is_autocast_enabled("cpu")))
        return core_output(model, halo, device)

    monkeypatch.setattr("polynsd.scale.fit.core_output", watched)
    run = lambda **options: fit_in_parts(small, data, split, TASK, num_parts=2, **options)  # noqa: E731
    run(config=TrainConfig(epochs=1, precision="bf16"))
    assert seen == {(True, True), (False, False)}
    seen.clear()
    run(config=TrainConfig(epochs=1, precision="bf16"), precision="float32")
    assert seen == {(True, False), (False, False)}


def test_numbers_can_be_predicted():
    data = path_graph(30, torch.float32)
    data.y = data.x[:, 0] + 0.5 * data.x[:, 1]
    build = lambda: published(-1, 4, 1, 1, degree=1, stalk_dim=2)  # noqa: E731
    config = TrainConfig(epochs=30, learning_rate=0.05)
    result = fit_in_parts(build, data, thirds(30), get_task("r2"), config, num_parts=3, update="epoch")
    assert result.val_metric > 0.3


def test_halos_of_single_parts_are_kept_while_there_is_room():
    parts = PartHalos(path_graph(40), 4, "bfs", 0)
    assert parts.around([1], 2) is parts.around([1], 2)
    assert parts.around([1], 1) is not parts.around([1], 2)
    assert parts.around([0, 1], 1) is not parts.around([0, 1], 1)
    parts._room = 0
    assert parts.around([2], 1) is not parts.around([2], 1)


def test_refusals():
    data, split = awkward_graph(dtype=torch.float32), thirds(40)
    run = lambda **options: fit_in_parts(small, data, split, TASK, num_parts=3, **options)  # noqa: E731
    for options, message in (
        ({"update": "step"}, "choose from: epoch, part"),
        ({"parts_per_step": 0}, "parts_per_step must be an integer"),
        ({"depth": -1}, "depth must be an integer"),
        ({"precision": "int8"}, "choose from: bf16, float32, fp16"),
        ({"method": "random"}, "choose from: auto, bfs, metis"),
    ):
        with pytest.raises(ConfigError, match=message):
            run(**options)
    with pytest.raises(ConfigError, match="lambda_max='analytic'"):
        fit_in_parts(lambda: published(5, 3, 1, 3, lambda_max="lanczos"), data, split, TASK, num_parts=3)
    with pytest.raises(DataError, match="not finite"):
        run(config=TrainConfig(learning_rate=1e30))
