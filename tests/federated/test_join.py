"""What `join` says where it cannot take part."""

import socket
import ssl
import subprocess
from threading import Thread

import pytest

pytest.importorskip("flwr")

from polynsd.errors import ConfigError
from polynsd.federated.node import _explain, _Presence


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A certificate for localhost that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("keys")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "certificate")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs openssl")
    return folder


def answer(keys, is_encrypted):
    """The address of a server that takes one connection."""
    server = socket.create_server(("localhost", 0))

    def serve():
        try:
            line, _ = server.accept()
            if is_encrypted:
                trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                trust.load_cert_chain(keys / "certificate", keys / "key")
                with trust.wrap_socket(line, server_side=True) as encrypted:
                    encrypted.recv(1)
            else:
                with line:
                    line.recv(1000)
                    line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        except OSError:
            line.close()
        finally:
            server.close()

    Thread(target=serve, daemon=True).start()
    return f"localhost:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("is_encrypted", "authority", "message"),
    [
        (True, None, "speaks TLS; name the certificate of its authority with --authority"),
        (False, "certificate", "does not speak TLS; leave out --authority"),
        (True, "other", "not to be trusted"),
        (True, "certificate", None),
        (False, None, None),
    ],
)
def test_encryption_on_one_side_alone_is_said(keys, is_encrypted, authority, message):
    if authority == "other":  # of Python's own list; any authority that did not sign the certificate
        authority = ssl.get_default_verify_paths().cafile
        if authority is None:
            pytest.skip("there is no other authority on this machine")
    elif authority is not None:
        authority = keys / authority
    presence = _Presence(answer(keys, is_encrypted), 60.0, authority)
    if message is None:
        assert presence.goes_on()
        return
    with pytest.raises(ConfigError, match=message):
        presence.goes_on()


def test_a_key_that_the_server_does_not_know_is_said():
    assert "does not know this key" in _explain("ERROR\n[code: 2004] Failed to activate SuperNode.")
    assert "--private-key" in _explain("[code: 2001] SuperNode authentication is enabled.")
    assert _explain("out of memory").endswith("out of memory")
