"""Training rules by name are what their table says, and options of the user win over them."""

import pytest

from polynsd.cli import main
from polynsd.cli.train import Train
from polynsd.config import ModelConfig, TrainConfig
from polynsd.errors import ConfigError
from polynsd.published import published_training
from polynsd.training import configuration
from polynsd.training.configuration import RULES, WEBKB, configure, get_rules
from polynsd.zoo import SHEAF_MODELS, build_model


def number(text):
    return float(text.replace("−", "-").rstrip("*"))


TABLE = [
    [cell.strip().strip("`") for cell in line.strip("|").split("|")]
    for line in configuration.__doc__.splitlines()
    if line.startswith("| `")
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])
def test_the_table_in_the_documentation(row):
    name, epochs, patience, select, rate, decay, std, _ = row
    rules = get_rules(name)
    found = rules.training
    assert (found.epochs, found.select) == (int(epochs), select)
    assert found.patience == (found.epochs if patience == "none" else int(patience))
    assert (found.learning_rate, found.weight_decay) == (number(rate), number(decay))
    assert rules.ddof == {"population": 0, "sample": 1}[std]
    on_webkb = [get_rules(name, dataset).training.learning_rate for dataset in WEBKB]
    assert on_webkb == [0.02 if rate.endswith("*") else number(rate)] * len(WEBKB)


def test_the_table_is_complete():
    assert [row[0] for row in TABLE] == list(RULES)


@pytest.mark.parametrize("dataset", ["squirrel", "texas2", "Texas", "", None])
def test_other_datasets_have_the_common_rate(dataset):
    assert get_rules("paper", dataset).training.learning_rate == 0.01


def test_the_default_rules_are_the_defaults():
    assert get_rules("default", "texas").training == TrainConfig() == Train().training


def test_unknown_rules():
    with pytest.raises(ConfigError, match=r"unknown training rules 'papier'.* Did you mean 'paper'"):
        get_rules("papier")


@pytest.fixture
def asked(monkeypatch):
    """What a command line asks for; nothing is trained."""

    def parse(*arguments):
        commands = []
        monkeypatch.setattr(Train, "run", lambda self: commands.append(self))
        main(["train", *arguments])
        return commands[0]

    return parse


def rule(epochs, patience, rate, decay=5e-4, select="metric"):
    return published_training(
        epochs=epochs, patience=patience, learning_rate=rate, weight_decay=decay, select=select
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], TrainConfig()),
        (["--rules", "paper", "--dataset", "texas"], rule(500, 200, 0.02, select="loss")),
        (["--rules", "paper", "--dataset", "chameleon"], rule(500, 200, 0.01, select="loss")),
        (["--rules=paper", "--dataset=texas"], rule(500, 200, 0.02, select="loss")),
        (["--rules", "paper"], rule(500, 200, 0.01, select="loss")),
        (["--rules", "paper-acc", "--dataset", "cornell"], rule(500, 200, 0.02, select="acc")),
        (["--rules", "platonov", "--dataset", "texas"], rule(1000, 1000, 3e-5, 0.0)),
        # what other rules have, said aloud
        (["--rules", "paper", "--patience", "100"], rule(500, 100, 0.01, select="loss")),
        (["--patience", "100", "--rules", "paper"], rule(500, 100, 0.01, select="loss")),
        (["--rules", "paper", "--dataset", "texas", "--learning-rate", "0.01", "--select", "metric"],
         rule(500, 200, 0.01)),
        (["--rules", "platonov", "--weight-decay", "5e-4"], rule(1000, 1000, 3e-5, 5e-4)),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "rules",
)  # fmt: skip
def test_rules_give_the_defaults_and_options_replace_them(asked, arguments, expected):
    assert asked(*arguments).training == expected


@pytest.mark.parametrize("model", SHEAF_MODELS)
def test_the_layers_of_a_model_have_its_own_defaults(asked, model):
    layer = asked("--model", model, "--dropout", "0.25").model.layer
    assert layer == configure({"model.model": model, "model.layer.dropout": 0.25}).model.layer
    own = SHEAF_MODELS[model](5, 4, 1, 3, dropout=0.25)
    assert build_model(ModelConfig(model, layer=layer), 5, 3).config == own.config


@pytest.mark.parametrize("arguments", [["--rules"], ["--dataset"], ["--rules", "paper", "--dataset"]])
def test_an_option_without_its_value_is_told(asked, arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        asked(*arguments)
    assert stop.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


def test_unknown_rules_are_told(asked, capsys):
    with pytest.raises(SystemExit) as stop:
        asked("--rules", "platonow")
    assert stop.value.code == 2
    assert "unknown training rules 'platonow'" in (error := capsys.readouterr().err)
    assert "Did you mean 'platonov'" in error
