import http.client
import os
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

pytest.importorskip("bokeh", reason="the extra [explore] is not installed")

from nmfmerge.explore.server import PortError, Server


@pytest.fixture(scope="module")
def server():
    server = Server(lambda document: document.set_title("a page"))
    server.start()
    yield server
    server.stop()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


SOCKET = {
    "Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13",
    "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
}  # fmt: skip


def test_the_whole_address_opens_the_page(server):
    status, text = ask(server, urlsplit(server.address).path)
    assert status == 200
    assert "a page" in text


@pytest.mark.parametrize(
    "path", ["/", "/ws", "/static/js/bokeh.min.js", "/alive", "/favicon.ico", "//", "/%00",
             "/wrong-token/", "/wrong-token/ws", "/wrong-token/alive", "/../etc/passwd"],
)  # fmt: skip
def test_nothing_is_served_without_the_token(server, path):
    status, text = ask(server, path)
    assert status == 403
    assert "address that `nmfmerge explore` has printed" in text
    assert server.token not in text


@pytest.mark.parametrize("part", ["", "alive", "static/js/bokeh.min.js", "ws"])
@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Host": "evil.example:80"}, {"Host": ""},
     {"Host": "127.0.0.1"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
     {"Origin": "http://["}, {"Origin": "http://[::1"}, {"Origin": ""}, {"Origin": "//"},
     {"Origin": "http://localhost:port"}, {"Host": "["}, {"Host": "[::1"}, {"Host": "\x80"},
     {"Origin": "https://127.0.0.1.evil.example"}],
)  # fmt: skip
def test_other_hosts_and_origins_are_refused_even_with_the_token(server, part, headers):
    assert ask(server, urlsplit(server.address).path + part, **headers)[0] in (400, 403)


def test_the_socket_is_refused_to_a_foreign_origin(server):
    path = urlsplit(server.address).path + "ws"
    assert ask(server, path, Origin="http://evil.example", **SOCKET)[0] == 403
    assert ask(server, "/ws", Origin=f"http://127.0.0.1:{server.port}", **SOCKET)[0] == 403


def test_localhost_is_this_machine_too(server):
    path = urlsplit(server.address).path + "alive"
    own = f"localhost:{server.port}"
    assert ask(server, path, Host=own, Origin=f"http://{own}") == (200, "here")


def test_only_the_loopback_address_listens(server):
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in others - {"127.0.0.1"}:
        if address.startswith("127."):
            continue
        with pytest.raises((ConnectionError, TimeoutError)):
            socket.create_connection((address, server.port), timeout=2).close()


def test_files_beside_the_library_are_not_served(server):
    start = urlsplit(server.address).path
    for path in ("static/../../../../etc/passwd", "static/%2e%2e/%2e%2e/server/server.py"):
        assert ask(server, start + path)[0] in (403, 404)


def test_two_servers_have_other_tokens_and_ports(server):
    other = Server(lambda document: None)
    other.stop()
    assert other.token != server.token
    assert other.port != server.port
    assert len(other.token) >= 32


def test_a_port_that_is_taken_is_named(server):
    with pytest.raises(PortError, match=f"port={server.port} cannot be opened"):
        Server(lambda document: None, server.port)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_out_of_range_is_named(port):
    with pytest.raises(PortError, match=f"port={port} is out of range"):
        Server(lambda document: None, port)


def test_the_package_imports_without_bokeh():
    code = (
        "import sys; sys.modules['bokeh'] = None\n"
        "import nmfmerge\n"
        "try: nmfmerge.explore([[1.0]])\n"
        "except ImportError as error: print(error)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert 'pip install "nmfmerge[explore]"' in out.stdout
