"""The tasks of a SuperNode, done in this process by this installation's ClientApp.

A SuperNode usually starts a program per message, which unpacks and runs the code that the server sends. Here
it is told to leave its tasks to somebody else (`--isolation process`), and `do_tasks` takes them: what the
server sends is never run, and PyTorch is loaded once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import httpx
from flwr.app import Error, Message
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
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

logger = logging.getLogger("polynsd")

POLL_SECONDS = 0.1
ACQUIRE = frozenset({"/flwr.proto.Runtime/AcquireTask"})  # what the secret is asked for


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
