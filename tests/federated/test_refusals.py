"""What a client is told that does not take part, and what `join` and `serve` say before they begin."""

import socket
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("flwr")

from federation import CLIENTS, CONFIG, PARTITION, Events, Leaving, make_sites
from flwr.app import Context, Message, RecordDict

from polynsd.cli import main
from polynsd.data import make_graph
from polynsd.data.tables import write_graph
from polynsd.errors import ConfigError, DataError
from polynsd.federated import node
from polynsd.federated.client_app import ClientFiles, Site, build_client_app
from polynsd.federated.config import Privacy, ServerOptions
from polynsd.federated.data import open_tables
from polynsd.federated.deployment import Certificates, serve
from polynsd.federated.roster import Refusal, read_refusal, write_refusal
from polynsd.federated.server import FederatedServer
from polynsd.federated.simulation import LocalGrid
from polynsd.federated.training import train_federated

FIRST = make_sites()[1]


class Refusing(Leaving):
    """A grid that remembers what refused clients are told, by node."""

    def __init__(self, sites, *present):
        super().__init__(sites, *present)
        self.told = {}

    def send_and_receive(self, messages, *, timeout=None):
        for message in messages:
            refusal = read_refusal(message.content)
            if refusal is not None:
                assert message.metadata.dst_node_id not in self.told
                self.told[message.metadata.dst_node_id] = refusal
        return super().send_and_receive(messages, timeout=timeout)


class Unreadable(Site):
    """A client of another version."""

    def describe(self):
        return RecordDict()


@pytest.mark.parametrize(
    ("site", "may_pass", "told"),
    [
        (Site("client-1", FIRST.data), True, "another client is called 'client-1' already. Give this one"),
        (
            Site("wide", replace(FIRST.data, x=torch.zeros(FIRST.data.num_nodes, 9))),
            False,
            "it has 9 features and 3 classes, with the same names as the clients before it, which have 6 and",
        ),
        (Site("other", FIRST.data, classes="others"), False, "with other names than the clients before it"),
        (Unreadable("strange", FIRST.data), False, "need the same version of polynsd"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_refused_client_is_told_once_why(site, may_pass, told):
    grid = Refusing([*make_sites(), site], [1, 2, 3, 4])
    server = FederatedServer(CONFIG, ServerOptions(CLIENTS), grid)
    outcome = server.run()
    assert [server.roster.num_nodes(n) > 0 for n in (1, 4)] == [True, False]
    assert (outcome.faults, list(grid.told)) == (1, [4])
    assert told in grid.told[4].reason
    assert grid.told[4].may_pass is may_pass
    assert not any(f"client-{number}" in grid.told[4].reason for number in (0, 2))  # names of others


def test_a_client_that_is_too_large_hears_of_the_limit():
    sites = make_sites()
    most = max(site.data.num_nodes for site in sites[:2])
    names = ("x", "y", "train", "val", "test")
    twice = replace(FIRST.data, **{name: torch.cat([getattr(FIRST.data, name)] * 2) for name in names})
    grid = Refusing([*sites[:2], Site("large", twice)], [1, 2, 3])
    FederatedServer(CONFIG, ServerOptions(2, max_nodes=most), grid).run()
    assert f"the server takes clients of {most} at most" in grid.told[3].reason
    assert "--max-nodes" in grid.told[3].reason


def test_a_refusal_travels_and_is_passed_on(tmp_path):
    LocalGrid([])  # messages need its identity
    refusals = []
    app = build_client_app(
        lambda context: (FIRST, ClientFiles(tmp_path)), on_refuse=refusals.append, on_close=pytest.fail
    )
    for refusal in (Refusal("too\nlarge"), Refusal("taken", may_pass=True)):
        reply = app(Message(write_refusal(refusal), 1, "query"), Context(1, 1, {}, RecordDict(), {}))
        assert not reply.has_error()
    assert refusals == [Refusal("too large"), Refusal("taken", may_pass=True)]
    assert read_refusal(RecordDict()) is None


@pytest.fixture
def join(monkeypatch, tmp_path):
    """Runs the command with a SuperNode that only brings these messages; its exit code."""
    LocalGrid([])
    PARTITION.save(tmp_path / "clients")
    for name in ("CLOSE_SECONDS", "TAKEN_SECONDS", "POLL_SECONDS"):
        monkeypatch.setattr(node, name, 0.0)

    @contextmanager
    def run_child(*arguments):
        yield SimpleNamespace(poll=lambda: None, returncode=0)

    def run(*messages, wait=0.0, server=None):
        waiting = list(messages)

        def do_tasks(address, secret, app, goes_on):
            while goes_on():
                if waiting:
                    app(waiting.pop(0), Context(1, 1, {}, RecordDict(), {}))

        monkeypatch.setattr(node, "run_child", run_child)
        monkeypatch.setattr(node, "do_tasks", do_tasks)
        with socket.create_server(("127.0.0.1", 0)) as line:
            here = f"127.0.0.1:{line.getsockname()[1]}"
            archive = str(tmp_path / "clients" / "client-1.npz")
            options = ["--data", archive, "--state", str(tmp_path / "state"), "--wait", str(wait)]
            with pytest.raises(SystemExit) as ended:
                main(["federated", "join", server or here, *options])
        return ended.value.code

    monkeypatch.setattr(node._Presence, "_check_encryption", lambda self, line: None)
    return run


@pytest.mark.parametrize("may_pass", [False, True])
def test_a_refused_join_ends_with_the_reason(join, capsys, may_pass):
    refusal = Refusal("another client is called 'client-1' already. Give this one another.", may_pass)
    assert join(Message(write_refusal(refusal), 1, "query"), wait=60.0) == 2
    printed = capsys.readouterr()
    assert printed.err == f"polynsd: the server does not let this client in: {refusal.reason}\n"
    assert ("client-1: not let in yet: another client" in printed.out) is may_pass
    assert "the training is over" not in printed.out


def test_a_question_after_a_refusal_takes_it_back(join, capsys, monkeypatch):
    """The name has become free; the client then stays until the server goes."""
    monkeypatch.setattr(node, "TAKEN_SECONDS", 60.0)
    refused = Message(write_refusal(Refusal("taken", may_pass=True)), 1, "query")
    assert join(refused, Message(RecordDict(), 1, "query"), wait=0.2) == 2
    assert "has gone and never asked" in capsys.readouterr().err
    assert join(refused, wait=0.2) == 2
    assert "does not let this client in: taken" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_said(join, capsys):
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{taken.getsockname()[1]}"
        assert join(server=server, wait=0.05) == 2
    assert f"no server at {server} within 0.05 s" in capsys.readouterr().err


def test_a_server_that_leaves_before_the_training_is_said(join, capsys):
    assert join(wait=0.0) == 2
    assert "has gone and never asked this client to train" in capsys.readouterr().err


def test_files_of_join_must_exist(tmp_path):
    for name, option in (("authority", "--authority"), ("private_key", "--private-key")):
        with pytest.raises(ConfigError, match=f"{option}: a file was expected at .*nope"):
            node.join("localhost:1", FIRST, tmp_path, **{name: tmp_path / "nope"})


BAD = [
    (replace(CONFIG, method="fedpub", masks="full"), Privacy(), "fedpub has masks of weights"),
    (replace(CONFIG, method="fedsage", backbone="gin"), Privacy(), "fedsage has its own network"),
    (replace(CONFIG, method="moon"), Privacy(dp_noise=1.0), "must be fedavg or fedprox; got moon"),
    (replace(CONFIG, method="fedavgg"), Privacy(), "Did you mean 'fedavg'"),
    (replace(CONFIG, options={"nu": 1}), Privacy(), "options of fedavg are"),
]


@pytest.mark.parametrize(("config", "privacy", "message"), BAD)
def test_what_does_not_go_together_is_said_before_anything_is_written(tmp_path, config, privacy, message):
    options = ServerOptions(CLIENTS, privacy=privacy)
    with pytest.raises(ConfigError, match=message):
        serve(config, options, tmp_path / "run", Events(), port=1)
    with pytest.raises(ConfigError, match=message):
        train_federated(PARTITION, config, options, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("missing", ["certificate", "key", "authority", "client_keys"])
def test_files_of_the_server_must_exist(tmp_path, missing):
    files = {name: tmp_path / name for name in ("certificate", "key", "authority", "client_keys")}
    for name in files.keys() - {missing}:
        files[name].touch()
    keys = [files.pop("client_keys")]
    option = missing.replace("_", "-")
    with pytest.raises(ConfigError, match=f"--{option}: a file was expected at .*{missing}; there is none"):
        serve(
            CONFIG,
            ServerOptions(CLIENTS),
            tmp_path / "run",
            certificates=Certificates(**files),
            client_keys=keys,
        )
    assert not (tmp_path / "run").exists()


def test_a_graph_that_is_too_small_for_the_default_clients_names_what_can_be_done(tmp_path, capsys):
    path = str(write_graph(make_graph("heterophily", num_nodes=180, num_classes=2), tmp_path / "g.npz")[0])
    with pytest.raises(SystemExit):
        main(["federated", "run", "--dataset", path])
    told = capsys.readouterr().err
    assert "fewer clients, or for a smaller delta: polynsd federated partition --delta 9" in told
    folder = tmp_path / "clients"
    main(["federated", "partition", "--dataset", path, "--delta", "9", "--out", str(folder)])
    short = ["--backbone", "gcn", "--rounds", "1", "--quiet", "--no-report"]
    main(["federated", "run", "--partition", str(folder), *short])


def test_columns_that_are_not_there_or_no_numbers_are_said(tmp_path):
    nodes = pd.DataFrame({"id": range(20), "x": np.arange(20.0), "town": ["Bern", "Oslo"] * 10})
    nodes["kind"] = ["a", "b"] * 10
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    pd.DataFrame({"from": range(19), "to": range(1, 20)}).to_csv(tmp_path / "edges.csv", index=False)
    paths = (tmp_path / "edges.csv", tmp_path / "nodes.csv")
    with pytest.raises(DataError, match=r"no column 'knd' in .*: x, town, kind. Did you mean 'kind'\?"):
        open_tables(*paths, "knd", ["a", "b"])
    with pytest.raises(DataError, match="no column 'id'"):
        open_tables(*paths, "id", ["a", "b"])
    with pytest.raises(DataError, match=r"must be numbers, .*nodes.csv has text in town\. Leave"):
        open_tables(*paths, "kind", ["a", "b"])
