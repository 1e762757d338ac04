"""Learning rates and decays of parameters: as PyTorch applies them, for every replica on its own."""

from dataclasses import replace

import pytest
import torch
from published_block import published
from torch import nn

from polynsd import PolyNSD, TrainConfig, heterophilous_graph
from polynsd.data import stratified_split
from polynsd.scale import fit_in_parts
from polynsd.training import Replica, fit, fit_replicas, get_task

pytestmark = pytest.mark.usefixtures("no_tracer")  # others cover this code

ACCURACY = get_task("accuracy")
PLAIN = TrainConfig(epochs=10, patience=10, learning_rate=0.02, weight_decay=0.01)
OPTIONS = {
    "plain": {},
    "rates": {"sheaf_rate": 0.005, "sheaf_decay": 0.0},
    "frozen maps": {"sheaf_rate": 0.0},
    "decay": {"sheaf_decay": 0.5},
}


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


def train_with_pytorch(config, data, split):
    """The losses before every step, and those on validation after it."""
    torch.manual_seed(0)
    model, loss_of = Normalised(), nn.CrossEntropyLoss()
    sheaf = model.sheaf_parameters()
    rest = [p for p in model.parameters() if all(p is not other for other in sheaf)]
    own = {"lr": config.sheaf_rate, "weight_decay": config.sheaf_decay}
    own = {name: value for name, value in own.items() if value is not None}
    optimizer = torch.optim.Adam(
        [{"params": rest}, {"params": sheaf, **own}],
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
    )
    losses = []
    for _ in range(config.epochs):
        optimizer.zero_grad()
        loss = loss_of(model.train()(data.x, data.edge_index)[split.train], data.y[split.train])
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            output = model.eval()(data.x, data.edge_index)
        losses.append((loss.item(), loss_of(output[split.val], data.y[split.val]).item()))
    return losses


def history_of(replicas, data):
    history = {}
    record = lambda number, epoch: history.setdefault(number, []).append(epoch)  # noqa: E731
    return fit_replicas(replicas, data, ACCURACY, on_epoch=record), history


@pytest.fixture(scope="module")
def company(data, split):
    """One replica for every set of options, all together."""
    replicas = [Replica(Normalised, split, 0, replace(PLAIN, **options)) for options in OPTIONS.values()]
    results, history = history_of(replicas, data)
    return dict(zip(OPTIONS, zip(results, history.values(), strict=True), strict=True))


@pytest.mark.parametrize("name", OPTIONS)
def test_ten_epochs_are_those_of_pytorch(data, split, company, name):
    expected = train_with_pytorch(replace(PLAIN, **OPTIONS[name]), data, split)
    found = [(epoch.train_loss, epoch.val_loss) for epoch in company[name][1]]
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["plain", "rates"])
def test_what_the_others_want_changes_no_bit(data, split, company, name):
    """As many replicas again, but all with the same options."""
    number, config = list(OPTIONS).index(name), replace(PLAIN, **OPTIONS[name])
    results, history = history_of([Replica(Normalised, split, 0, config)] * len(OPTIONS), data)
    result, epochs = company[name]
    assert history[number] == epochs
    for a, b in zip(*(r.model.state_dict().values() for r in (results[number], result)), strict=True):
        assert torch.equal(a, b)


def test_training_in_parts_follows_the_same_rules(data, split):
    config = replace(PLAIN, **OPTIONS["rates"])
    build = lambda: published(5, 3, 1, 2, stalk_dim=2, degree=1).double()  # noqa: E731
    one = fit(build, data, split, ACCURACY, config)
    other = fit_in_parts(build, data, split, ACCURACY, config, num_parts=3, update="epoch")
    assert other.val_loss == pytest.approx(one.val_loss, abs=1e-8)
