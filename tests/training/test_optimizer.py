"""Rates, schedules, clipping, smoothing and averages: as PyTorch does them, for every replica on its own."""

import math
from dataclasses import replace

import pytest
import torch
from published_block import published
from torch import nn
from torch.optim.swa_utils import AveragedModel

from polynsd import ConfigError, PolyNSD, TrainConfig, heterophilous_graph
from polynsd.data import stratified_split
from polynsd.scale import fit_in_parts
from polynsd.training import Replica, fit, fit_replicas, get_task

pytestmark = pytest.mark.usefixtures("no_tracer")  # others cover this code

ACCURACY = get_task("accuracy")
PLAIN = TrainConfig(epochs=10, patience=10, learning_rate=0.02, weight_decay=0.01)
OWN_RATES = {"sheaf_rate": 0.005, "filter_rate": 0.1, "sheaf_decay": 0.0}
OPTIONS = {
    "plain": {},
    "rates": OWN_RATES,
    "cosine": {"schedule": "cosine"},
    "warm-up": {"warmup": 20},
    "both": {"schedule": "cosine", "warmup": 4},
    "clipping": {"clip_norm": 0.05},
    "smoothing": {"label_smoothing": 0.2},
    "averages": {"ema": 0.8},
}
ALL = ("rates", "both", "clipping", "smoothing", "averages")
OPTIONS["all"] = dict(pair for name in ALL for pair in OPTIONS[name].items())


@pytest.fixture(scope="module")
def data():
    data = heterophilous_graph(40, 2, 5, 4, heterophily=0.9, seed=3).to_pyg()
    data.x = data.x.double()
    return data


@pytest.fixture(scope="module")
def split(data):
    return stratified_split(data.y, seed=0)


class Normalised(PolyNSD):
    """A model with running means."""

    def __init__(self):
        super().__init__(5, 3, 1, 2, stalk_dim=2, degree=2, dropout=0.0)
        self.norm = nn.BatchNorm1d(5)
        self.double()

    def forward(self, x, edge_index):
        return super().forward(self.norm(x), edge_index)


def factor(config, n):
    """The schedule, once more in plain numbers."""
    if n < config.warmup:
        return (n + 1) / config.warmup
    if config.schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * (n - config.warmup) / (config.epochs - config.warmup))) / 2


def train_with_pytorch(config, data, split):
    """The losses before every step, and those on validation after it."""
    torch.manual_seed(0)
    model = Normalised()
    sheaf, filters = model.sheaf_parameters(), model.filter_parameters()
    taken = {id(p) for p in sheaf + filters}
    first = lambda value, other: other if value is None else value  # noqa: E731
    rate, decay = config.learning_rate, config.weight_decay
    groups = [
        {"params": [p for p in model.parameters() if id(p) not in taken]},
        {
            "params": sheaf,
            "lr": first(config.sheaf_rate, rate),
            "weight_decay": first(config.sheaf_decay, decay),
        },
        {"params": filters, "lr": first(config.filter_rate, rate)},
    ]
    optimizer = torch.optim.Adam(groups, lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: factor(config, n))

    def mean(average, new, count):
        decay = min(config.ema, float((1 + count - 1) / (10 + count - 1)))
        return decay * average + (1 - decay) * new

    averaged = AveragedModel(model, avg_fn=mean, use_buffers=True)
    averaged.n_averaged.fill_(1)  # or the first step would be copied
    loss_of = nn.CrossEntropyLoss(label_smoothing=config.label_smoothing)
    losses = []
    for _ in range(config.epochs):
        model.train()
        optimizer.zero_grad()
        loss = loss_of(model(data.x, data.edge_index)[split.train], data.y[split.train])
        loss.backward()
        if config.clip_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        optimizer.step()
        schedule.step()
        averaged.update_parameters(model)
        with torch.no_grad():
            output = averaged.eval()(data.x, data.edge_index)
        on_val = nn.CrossEntropyLoss()(output[split.val], data.y[split.val])
        losses.append((loss.item(), on_val.item()))
    return losses


def history_of(replicas, data, **options):
    history = {}
    record = lambda number, epoch: history.setdefault(number, []).append(epoch)  # noqa: E731
    return fit_replicas(replicas, data, ACCURACY, on_epoch=record, **options), history


@pytest.fixture(scope="module")
def company(data, split):
    """One replica for every set of options, all together."""
    replicas = [Replica(Normalised, split, 0, replace(PLAIN, **options)) for options in OPTIONS.values()]
    results, history = history_of(replicas, data)
    return dict(zip(OPTIONS, zip(results, history.values(), strict=True), strict=True))


@pytest.mark.parametrize("name", OPTIONS)
def test_ten_epochs_are_those_of_pytorch(data, split, company, name):
    config = replace(PLAIN, **OPTIONS[name])
    expected = train_with_pytorch(config, data, split)
    found = [(epoch.train_loss, epoch.val_loss) for epoch in company[name][1]]
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["plain", "all"])
def test_what_the_others_want_changes_no_bit(data, split, company, name):
    """As many replicas again, but all with the same options."""
    number, config = list(OPTIONS).index(name), replace(PLAIN, **OPTIONS[name])
    results, history = history_of([Replica(Normalised, split, 0, config)] * len(OPTIONS), data)
    result, epochs = company[name]
    assert history[number] == epochs
    for a, b in zip(*(r.model.state_dict().values() for r in (results[number], result)), strict=True):
        assert torch.equal(a, b)


def test_the_average_is_the_model(data, split, company):
    """Evaluated, kept and returned; integers are not averaged."""
    for name in ("plain", "averages"):
        model, best = company[name][0].model, company[name][0].best_epoch
        output = model(data.x, data.edge_index)
        loss = ACCURACY.loss(output[split.val], data.y[split.val])
        assert loss.item() == pytest.approx(company[name][0].val_loss, rel=1e-9)
        assert int(model.norm.num_batches_tracked) == best
    assert company["averages"][0].val_loss != company["plain"][0].val_loss


class Memory:
    """Keeps every state, as a file would."""

    def __init__(self, start=None):
        self.states, self.start = [], start

    def load(self):
        return self.start

    def offer(self, state):
        self.states.append({name: value.clone() for name, value in state().items()})


def test_a_training_with_averages_goes_on_as_if_it_had_not_been_interrupted(data, split):
    """Also after the only replica with an average has ended and was dropped."""
    changes = [{"epochs": 3, "ema": 0.9}, {"epochs": 3, "ema": 0.5, "schedule": "cosine"}, {"epochs": 6}]
    for last in ({}, {"ema": 0.99, "warmup": 3}):
        rules = [replace(PLAIN, **change) for change in (*changes[:2], changes[2] | last)]
        replicas, memory = [Replica(Normalised, split, 0, rule) for rule in rules], Memory()
        expected, histories = history_of(replicas, data, snapshots=memory)
        for state in memory.states[1::2]:
            results, seen = history_of(replicas, data, snapshots=Memory(state))
            assert seen.get(2, []) == histories[2][len(histories[2]) - len(seen.get(2, [])) :]
            for one, other in zip(results, expected, strict=True):
                for a, b in zip(
                    one.model.state_dict().values(), other.model.state_dict().values(), strict=True
                ):
                    assert torch.equal(a, b)


def test_training_in_parts_follows_the_same_rules(data, split):
    config = replace(PLAIN, **OPTIONS["all"] | {"ema": 0.0})
    build = lambda: published(5, 3, 1, 2, stalk_dim=2, degree=1).double()  # noqa: E731
    one = fit(build, data, split, ACCURACY, config)
    other = fit_in_parts(build, data, split, ACCURACY, config, num_parts=3, update="epoch")
    assert other.val_loss == pytest.approx(one.val_loss, abs=1e-8)
    with pytest.raises(ConfigError, match="in parts keeps no average of the weights; leave ema at 0"):
        fit_in_parts(build, data, split, ACCURACY, replace(config, ema=0.9), num_parts=3)


def test_numbers_have_no_labels_to_smooth(data, split):
    target = data.clone()
    target.y = data.x[:, 0]
    with pytest.raises(ConfigError, match="label_smoothing is for classes"):
        fit(Normalised, target, split, get_task("r2"), replace(PLAIN, label_smoothing=0.1))
