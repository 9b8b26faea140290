"""A server for this machine alone: one page, behind a secret address.

It listens on the loopback address. Every request needs the token in its path, and a Host and an
Origin that are this server's own; anything else is refused before Bokeh sees it.
"""

import asyncio
import hmac
import secrets
import socket
import threading
from collections.abc import Callable

from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.document import Document
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream
from tornado.routing import AnyMatches, Matcher, Rule, RuleRouter
from tornado.web import Application as WebApplication
from tornado.web import RequestHandler

from nmfmerge.arguments.errors import Given, Message

ADDRESS = "127.0.0.1"
_MESSAGE = 64 << 20  # bytes of the largest message from the page


class PortError(OSError):
    """The port cannot be opened; the message says what to do."""


class Server:
    """Serves the page that ``make`` fills, in a thread of its own.

    Parameters
    ----------
    make : callable
        ``make(document)`` adds the page of a new tab to a Bokeh document.
    port : int
        Port to listen on; 0 is any free one.
    """

    def __init__(self, make: Callable[[Document], None], port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self._make = make
        self._socket = _bind(port)
        self.port: int = self._socket.getsockname()[1]
        self._loop: IOLoop | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True, name="nmfmerge-server")
        self._ready = threading.Event()

    @property
    def address(self) -> str:
        """The address of the page, with its token."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def start(self) -> None:
        """Begin to serve; returns when the page can be opened."""
        self._thread.start()
        self._ready.wait(30)

    def stop(self) -> None:
        """Stop serving."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.add_callback(self._loop.stop)
            self._thread.join(10)
        self._socket.close()

    def wait(self) -> None:
        """Wait until the server is stopped, in a way that Ctrl-C can interrupt."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def _serve(self) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        self._loop = IOLoop.current()
        hosts = {f"{name}:{self.port}" for name in (ADDRESS, "localhost")}
        app = BokehTornado(
            {"/": Application(FunctionHandler(self._make))},
            prefix=self.token,
            extra_websocket_origins=sorted(hosts),
            extra_patterns=[("/alive", _Alive)],
            use_index=False,
            redirect_root=False,
            websocket_max_message_size_bytes=_MESSAGE,
            keep_alive_milliseconds=10_000,
            check_unused_sessions_milliseconds=5_000,
            unused_session_lifetime_milliseconds=15_000,
            log_function=_no_log,
        )
        http = _Prompt(
            RuleRouter([
                Rule(_Ours(self.token, hosts), app),
                Rule(AnyMatches(), WebApplication([(r".*", _Refused)], log_function=_no_log)),
            ])
        )  # fmt: skip
        server = BaseServer(self._loop, app, http)
        http.add_socket(self._socket)
        server.start()
        self._loop.add_callback(self._ready.set)
        self._loop.start()
        http.stop()
        self._loop.run_sync(http.close_all_connections)
        server.stop(wait=False)
        self._loop.close()


class _Prompt(HTTPServer):
    """Sends each message at once; Tornado lets a small one wait 40 ms for the one before."""

    def handle_stream(self, stream: IOStream, address: tuple) -> None:
        stream.set_nodelay(True)
        stream.set_nodelay = lambda _: None  # it would be taken back after each answer
        super().handle_stream(stream, address)


class _Ours(Matcher):
    """Matches requests with the token, to one of our hosts, from no other origin."""

    def __init__(self, token: str, hosts: set[str]) -> None:
        self._token = token.encode()
        self._hosts = hosts
        self._origins = {f"http://{host}" for host in hosts} | {None}  # a plain request has none

    def match(self, request: HTTPServerRequest) -> dict[str, object] | None:
        origin = request.headers.get("Origin")
        known = request.headers.get("Host", "").lower() in self._hosts
        same = (origin and origin.lower()) in self._origins
        given = request.path.split("/")[1] if request.path.startswith("/") else ""
        secret = hmac.compare_digest(given.encode("utf-8", "replace"), self._token)
        return {} if known and same and secret else None


class _Refused(RequestHandler):
    """The response to all other requests."""

    def prepare(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(
            "Refused: open the address that `nmfmerge explore` has printed, whole and on the same "
            "machine. Through an ssh tunnel, use the same port number at both ends.\n"
        )


class _Alive(RequestHandler):
    """Confirms to the page that the server is running."""

    def get(self) -> None:
        self.set_header("Cache-Control", "no-store")
        self.finish("here")


def _no_log(_: RequestHandler) -> None:
    """Log no requests: their paths have the token."""


def _bind(port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise PortError(
            Message(
                "{given} is out of range; expected 0 (any free one) to 65535",
                given=Given("port", port),
            )
        )
    try:
        listening = socket.create_server((ADDRESS, port))
    except OSError as error:
        raise PortError(
            Message(
                "{given} cannot be opened ({error}): name another, or none to get a free one",
                given=Given("port", port),
                error=error.strerror,
            )
        ) from error
    listening.setblocking(False)
    return listening
