"""`join`: one client of a federation over processes, by a SuperNode of Flower's.

A SuperNode usually starts a program per message, which unpacks and runs the code that the server sends. Here
it is told to leave its tasks to somebody else (`--isolation process`), and `do_tasks` takes them: what the
server sends is never run, and PyTorch is loaded once.
"""

from __future__ import annotations

import logging
import math
import secrets
import signal
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.error import ApiErrorCode
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from polynsd.errors import ConfigError
from polynsd.federated.children import read_tail, run_child
from polynsd.federated.client_app import ClientFiles, Order, Site, build_client_app
from polynsd.federated.config import FederatedConfig
from polynsd.federated.deployment import child_environment, require_files
from polynsd.federated.roster import Refusal
from polynsd.federated.training import FederationError

logger = logging.getLogger("polynsd")

POLL_SECONDS = 0.1
PROBE_SECONDS = 5.0
FIRST_PROBE_SECONDS = 1.0  # until the server was there once
CLOSE_SECONDS = 5.0
TAKEN_SECONDS = 90.0  # after 60 s without a sign of life Flower takes a client for gone
STARTS = 5  # of a SuperNode, which ends when its server was started again and does not know it
ACQUIRE = frozenset({"/flwr.proto.Runtime/AcquireTask"})  # what the secret is asked for


def join(
    server: str,
    site: Site,
    state: Path,
    *,
    authority: Path | None = None,
    private_key: Path | None = None,
    wait: float = 60.0,
    on_start: Callable[[FederatedConfig], None] = lambda config: None,
    on_wait: Callable[[str], None] = lambda reason: None,
) -> None:
    """Takes part until the training is over or the server is gone.

    A client that was started again finds its name taken until the server has noticed that the earlier one is
    gone, so a client whose name is taken waits a while before it gives up.

    Args:
        server: its address, host:port.
        site: the client.
        state: a folder for what it keeps between rounds, and its own model in the end.
        authority: the certificate of the server's authority, for TLS.
        private_key: of this client, where the server wants to know who joins.
        wait: seconds to wait for a server that is not there, or not any more.
        on_start: is told once what is trained, before the first round.
        on_wait: is told why the server does not let the client in yet.

    Raises:
        ConfigError: a file is not there, or one side speaks TLS and the other does not.
        FederationError: there is no server, or it does not let this client in, or has not asked it to train.
    """
    require_files({"--authority": authority, "--private-key": private_key})
    trainings: set[str] = set()

    def open_site(context: Context) -> tuple[Site, ClientFiles]:
        presence.forget_refusal()  # the server asks again
        return site.afresh(), ClientFiles(state)

    def look(order: Order) -> None:
        if order.run not in trainings:
            trainings.add(order.run)
            on_start(order.config)

    def refuse(refusal: Refusal) -> None:
        presence.refuse(refusal)
        if refusal.may_pass:
            on_wait(refusal.reason)

    presence = _Presence(server, wait, authority)
    presence.wait_for_server()
    app = build_client_app(open_site, look, presence.close, refuse)
    with TemporaryDirectory() as folder:  # open to its owner alone
        place, secret = Path(folder), secrets.token_bytes(32)
        (place / "secret").write_bytes(secret)
        started = 0
        while presence.goes_on():
            port, log = _free_port(), place / "log"
            command = ["flower-supernode", "--superlink", server, "--isolation", "process"]
            command += ["--port", str(port), "--superexec-auth-secret-file", str(place / "secret")]
            command += ["--insecure"] if authority is None else ["--root-certificates", str(authority)]
            command += [] if private_key is None else ["--auth-supernode-private-key", str(private_key)]
            with run_child(command, child_environment(place), log) as supernode:
                do_tasks(
                    f"127.0.0.1:{port}", secret, app, lambda: supernode.poll() is None and presence.goes_on()
                )
            started += 1
            if supernode.returncode not in (0, 128 + signal.SIGTERM) and started == STARTS:
                raise FederationError(_explain(read_tail(log)))
    if presence.refusal:
        raise FederationError(f"the server does not let this client in: {presence.refusal}")
    if not trainings:
        raise FederationError(
            f"the server at {server} has gone and never asked this client to train. Start the server again, "
            "and then this client."
        )


def _explain(log: str) -> str:
    """Why a server did not let a SuperNode in, from what that said last."""
    if f"[code: {ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED.value}]" in log:
        return "the server does not know this key; give its public part to serve, with --client-keys."
    if f"[code: {ApiErrorCode.FLEET_SUPERNODE_REGISTRATION_DISABLED.value}]" in log:
        return "the server lets in clients that it knows alone; name your key with --private-key."
    return f"Flower's client ended {STARTS} times:\n{log}"


class _Presence:
    """Whether the training of a server goes on.

    Args:
        server: its address.
        wait: seconds that it may be out of reach.
        authority: the certificate of its authority, for TLS.
    """

    def __init__(self, server: str, wait: float, authority: Path | None = None) -> None:
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit():
            raise ConfigError(f"the address of a server is HOST:PORT; got {server!r}.")
        self.address, self.wait = (host.strip("[]"), int(port)), wait
        self._seen = self._next = time.monotonic()
        self._end = math.inf
        self.authority, self._is_checked = authority, False
        self.has_met_server, self.refusal = False, ""

    def wait_for_server(self) -> None:
        """Returns as soon as the server is there.

        Raises:
            FederationError: it is not there in time.
        """
        while not self.has_met_server:
            if not self.goes_on():
                host, port = self.address
                raise FederationError(
                    f"no server at {host}:{port} within {self.wait:g} s. Check the address, start the server "
                    "(polynsd federated serve) first, or wait longer with --wait."
                )
            if not self.has_met_server:
                time.sleep(POLL_SECONDS)

    def refuse(self, refusal: Refusal) -> None:
        """The server does not let this client in; if that may pass, it has some time to change its mind."""
        self.refusal = refusal.reason
        self._end = time.monotonic() + (TAKEN_SECONDS if refusal.may_pass else CLOSE_SECONDS)

    def forget_refusal(self) -> None:
        """The server asks a client again when its name has become free."""
        self.refusal, self._end = "", math.inf

    def close(self) -> None:
        """The training is over; the last answer still has to leave."""
        self._end = time.monotonic() + CLOSE_SECONDS

    def goes_on(self) -> bool:
        """Asks the server now and then.

        Raises:
            ConfigError: one of us speaks TLS and the other does not, or its certificate is not to be trusted.
        """
        now = time.monotonic()
        if now >= self._next:
            self._next = now + (PROBE_SECONDS if self.has_met_server else FIRST_PROBE_SECONDS)
            with suppress(OSError), socket.create_connection(self.address, timeout=PROBE_SECONDS) as line:
                self._seen, self.has_met_server = now, True
                if not self._is_checked:
                    self._check_encryption(line)
                    self._is_checked = True
        return now < self._end and now - self._seen <= self.wait

    def _check_encryption(self, line: socket.socket) -> None:
        """Shakes hands: a SuperNode that cannot would try for ever and say nothing."""
        host, port = self.address
        trust = ssl.create_default_context(cafile=self.authority)
        if self.authority is None:  # only to see whether the server speaks TLS
            trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        try:
            with trust.wrap_socket(line, server_hostname=host):
                speaks, problem = True, None
        except ssl.SSLCertVerificationError as error:
            speaks, problem = True, error.verify_message
        except ssl.SSLError:  # the answer is none of TLS; where there is none, it is tried again
            speaks, problem = False, None
        if speaks and self.authority is None:
            raise ConfigError(
                f"the server at {host}:{port} speaks TLS; name the certificate of its authority with "
                "--authority."
            )
        if problem is not None:
            raise ConfigError(
                f"the certificate of {host}:{port} is not to be trusted after {self.authority}: {problem}."
            )
        if not speaks and self.authority is not None:
            raise ConfigError(
                f"the server at {host}:{port} does not speak TLS; leave out --authority, or start it with "
                "--certificate, --key and --authority."
            )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def do_tasks(address: str, secret: bytes, app: ClientApp, goes_on: Callable[[], bool]) -> None:
    """Takes the tasks of a SuperNode, one after the other.

    Args:
        address: of its interface for programs, on this machine.
        secret: that it was started with, so that no other program takes its tasks.
        app: what answers.
        goes_on: whether it is still there.
    """
    guard = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=ACQUIRE)
    client = _connect(address, "SuperExec", guard)
    request = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
    try:
        while goes_on():
            try:
                found = client.AcquireTask(request)
            except httpx.HTTPError:  # it is starting, or ending
                time.sleep(POLL_SECONDS)
                continue
            if found.HasField("task") and found.token:
                _do_task(address, found.token, app)
            else:
                time.sleep(POLL_SECONDS)
    finally:
        client.close()


def _do_task(address: str, token: str, app: ClientApp) -> None:
    """Answers one message; an answer that fails is an answer too."""
    client = _connect(address, "flwr-clientapp", RuntimeTokenHttpInterceptor(token))
    heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(client))
    heartbeat.start()
    try:
        message, context, _, _ = pull_task_input(client)
        try:
            reply, status, details = app(message, context), SubStatus.COMPLETED, ""
        except Exception as error:  # whatever it is, the server must hear of it, and the next task comes
            logger.exception("a message could not be answered.")
            details = f"{type(error).__name__}: {error}"
            reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, details), reply_to=message)
            status = SubStatus.FAILED
        push_message(client, reply, context)
        push_task_output(client, context, status, details)
    except httpx.HTTPError:  # the SuperNode has ended; another one may bring the message again
        logger.warning("the SuperNode ended before a message was answered.")
    finally:
        heartbeat.stop()
        client.close()


def _connect(address: str, name: str, guard: ProtobufClientInterceptor) -> RuntimeHttpClient:
    retry = make_simple_http_retry_invoker()
    retry.max_tries = 1  # it is on this machine: it answers, or it has ended
    return RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=True,  # within this machine
        root_certificates=None,
        interceptors=[RuntimeVersionHttpInterceptor(component_name=name), guard],
        retry_invoker=retry,
    )
