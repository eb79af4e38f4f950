"""Calls of the service: attempts, envelopes, pages and files."""
from __future__ import annotations

import dataclasses
import gzip
import http.client
import io
import json
import math
import random
import re
import secrets
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

from .error import MunimentError, broken, foreign, read_object, refused, unanswered

#: The longest answer that is read at once. Bundles and files are streams.
MAX_ANSWER = 256 << 20
MAX_REFUSAL = 1 << 20
CHUNK = 64 << 10


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """How often and when a request is made again. It is, if

    - no answer came, or it broke off;
    - the status is 408, 425, 429 or from 500 on;
    - the status is 409 with Retry-After: an earlier attempt with the same Idempotency-Key is still
      being answered.

    The pause is random, up to a bound that doubles with each attempt, and at least half of that;
    where the service says Retry-After, it is that and a little more. All times are seconds.
    """

    #: Of a call, the first included. 1 tries nothing again.
    attempts: int = 5
    #: The bound of the first pause, and that of all pauses.
    first_delay: float = 0.5
    max_delay: float = 30
    #: The longest Retry-After that a call waits for: with a longer one the call ends with the answer.
    max_retry_after: float = 120

    def __post_init__(self) -> None:
        if self.attempts < 1 or not all(v >= 0 for v in (self.first_delay, self.max_delay, self.max_retry_after)):
            raise ValueError("a field of the RetryPolicy is invalid")

    def delay(self, attempt: int, after: float = 0) -> float:
        """The pause after an attempt, counted from 0, after being the service's Retry-After, or 0."""
        half = min(self.first_delay * 2 ** min(attempt, 50), self.max_delay) / 2
        jitter = half * random.random()
        return after + min(jitter, after / 4) if after > 0 else half + jitter


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a client makes its calls."""

    base: urllib.parse.SplitResult
    key: Callable[[], str]
    timeout: float
    deadline: float | None
    retry: RetryPolicy
    user_agent: str
    context: ssl.SSLContext | None
    now: Callable[[], float]
    sleep: Callable[[float], None]
    #: For one change.
    idempotency_key: str | None = None


@dataclasses.dataclass
class Answer:
    """A success: the data in its envelope."""

    data: Any
    headers: http.client.HTTPMessage
    idempotency_key: str


class Caller:
    """Makes calls of one service with one API key. It is safe for concurrent use."""

    def __init__(self, settings: Settings, idle: list[Connection] | None = None):
        self.settings = settings
        self._idle: list[Connection] = [] if idle is None else idle  # connections that are open and not in use

    def having(self, **changed: Any) -> Caller:
        """The same with other settings, on the same connections."""
        return Caller(dataclasses.replace(self.settings, **changed), self._idle)

    def close(self) -> None:
        while connection := self._take():
            connection.close()

    def _take(self) -> Connection | None:
        """A connection that is not in use; list.pop is one step, also between threads."""
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def data(self, method: str, path: str, body: Any = None, query: Any = None, **headers: str) -> Any:
        """Makes attempts until one is answered, and returns the data."""
        return self.answer(method, path, body, query, **headers).data

    def record(self, method: str, path: str, noun: str, body: Any = None, query: Any = None) -> Any:
        """Returns what stands in the data under the record's noun."""
        data = self.data(method, path, body, query)
        if not isinstance(data, dict) or noun not in data:
            raise MunimentError(f"{method} {path}", "foreign", f"its data have no {noun}", status=200)
        return data[noun]

    def answer(self, method: str, path: str, body: Any = None, query: Any = None, **headers: str) -> Answer:
        request = Request(self.settings, method, path, body, query, headers)

        def attempt(end: float) -> Answer:
            response = self._send(request, end)
            text = response.read_all(MAX_ANSWER)
            envelope = read_object(text)
            if envelope is None or envelope.get("ok") is not True or envelope.get("data") is None or not envelope.get("contractVersion"):
                raise broken(request.operation, 200, response.headers, foreign(200, response.headers, text))
            return Answer(envelope["data"], response.headers, request.idempotency_key)

        return self._again(request, attempt)

    def pages(self, path: str, plural: str, query: Any = None) -> Iterator[Any]:
        """The records of all pages, which stand in the data under their plural."""
        query = dict(query or {})
        while True:
            page = self.data("GET", path, query=query)
            if not isinstance(page, dict) or not isinstance(page.get(plural), list):
                raise MunimentError(f"GET {path}", "foreign", f"its data have no {plural}", status=200)
            yield from page[plural]
            if not page.get("nextCursor"):
                return
            query["cursor"] = page["nextCursor"]

    def stream(self, path: str, query: Any = None) -> File:
        """A file. Only its begin is tried again: reading one that breaks off raises an error."""
        request = Request(self.settings, "GET", path, None, query, {})
        return self._again(request, lambda end: File(self._send(request, end), self.settings.timeout))

    def pause(self, attempt: int) -> None:
        self.settings.sleep(self.settings.retry.delay(attempt))

    def _again(self, request: Request, attempt: Callable[[float], Any]) -> Any:
        """Makes attempts until one succeeds or none may follow."""
        s = self.settings
        end = math.inf if s.deadline is None else s.now() + s.deadline
        for n in range(s.retry.attempts):
            try:
                return attempt(time.monotonic() + min(s.timeout, max(end - s.now(), 0)))
            except MunimentError as err:
                err.idempotency_key = request.idempotency_key
                pause = s.retry.delay(n, err.retry_after)
                if not err.passes or n + 1 == s.retry.attempts or err.retry_after > s.retry.max_retry_after or s.now() + pause >= end:
                    raise
            s.sleep(pause)

    def _send(self, request: Request, end: float) -> Response:
        """Makes one attempt, and returns the answer if its status is 200."""
        key = self.settings.key()
        check_key(key)
        headers = {**request.headers, "Authorization": f"Bearer {key}"}
        while True:
            connection = self._take()
            reused = connection is not None
            connection = connection or Connection(self.settings)
            try:
                response = connection.request(request, headers, end)
                break
            except (OSError, http.client.HTTPException) as err:
                connection.close()
                if not reused:  # else the service may have closed it meanwhile
                    raise unanswered(request.operation, err) from err
        response.release = self._release
        if response.status == 200:
            return response
        raise refused(request.operation, response.status, response.headers, response.read_all(MAX_REFUSAL))

    def _release(self, connection: Connection) -> None:
        if len(self._idle) < 8:
            self._idle.append(connection)
        else:
            connection.close()


class Request:
    """One call, in all of its attempts."""

    def __init__(self, settings: Settings, method: str, path: str, body: Any, query: Any, headers: dict[str, str]):
        self.operation = f"{method} {path}"
        self.method = method
        self.headers = {"User-Agent": settings.user_agent, "Accept": "*/*"} | {name.replace("_", "-"): value for name, value in headers.items()}
        self.target = settings.base.path.rstrip("/") + path + query_of(query)
        self.body = body
        if body is not None and not isinstance(body, bytes):
            self.body = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
            self.headers["Content-Type"] = "application/json"
        self.idempotency_key = ""
        if method == "POST":
            self.idempotency_key = secrets.token_hex(16) if settings.idempotency_key is None else settings.idempotency_key
            if not is_visible(self.idempotency_key, 255):
                raise ValueError(f"{self.operation}: the Idempotency-Key must be 1 to 255 visible ASCII characters")
            self.headers["Idempotency-Key"] = self.idempotency_key


class Connection:
    """A connection to the service."""

    def __init__(self, settings: Settings):
        base = settings.base
        if base.scheme == "https":
            context = settings.context or ssl.create_default_context()
            self.http: http.client.HTTPConnection = http.client.HTTPSConnection(base.hostname or "", base.port, context=context)
        else:
            self.http = http.client.HTTPConnection(base.hostname or "", base.port)

    def request(self, request: Request, headers: dict[str, str], end: float) -> Response:
        if self.http.sock is None:
            self.http.timeout = left(end)
            self.http.connect()
            self.http.sock = TimedSocket(self.http.sock)  # type: ignore[assignment]
        self.http.sock.end = end  # type: ignore[union-attr]
        self.http.request(request.method, request.target, body=request.body, headers=headers)
        return Response(self, request.operation, self.http.getresponse())

    def close(self) -> None:
        self.http.close()


def left(end: float) -> float:
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("the answer did not come in time")
    return seconds


class TimedSocket:
    """A socket each of whose operations ends with the attempt, however slowly bytes come in."""

    def __init__(self, inner: socket.socket):
        self._inner = inner
        self.end = math.inf
        self._readers, self._closed = 0, False

    def sendall(self, content: Any) -> None:
        self._inner.settimeout(left(self.end))
        self._inner.sendall(content)

    def makefile(self, _mode: str) -> io.BufferedReader:
        self._readers += 1
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        # A connection that ends with its answer is closed before that is read.
        self._closed = True
        if self._readers == 0:
            self._inner.close()

    def reader_closed(self) -> None:
        self._readers -= 1
        if self._closed:
            self.close()

    def recv_into(self, buffer: Any) -> int:
        self._inner.settimeout(min(left(self.end), 86400))
        return self._inner.recv_into(buffer)


class _Reader(io.RawIOBase):
    def __init__(self, timed: TimedSocket):
        self._socket = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._socket.recv_into(buffer)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._socket.reader_closed()


class Response:
    """An answer whose body is still to be read."""

    def __init__(self, connection: Connection, operation: str, inner: http.client.HTTPResponse):
        self.connection, self.operation, self.inner = connection, operation, inner
        self.status, self.headers = inner.status, inner.headers
        self.release: Callable[[Connection], None] = lambda connection: connection.close()

    def read(self, most: int = CHUNK) -> bytes:
        """The next part; empty at the end of a body that is whole."""
        try:
            part = self.inner.read(most)
            if not part and self.inner.length:  # it ends before its Content-Length
                raise http.client.IncompleteRead(b"", self.inner.length)
        except (OSError, http.client.HTTPException, ValueError) as err:
            self.close()
            raise broken(self.operation, self.status, self.headers, f"the answer is cut off: {err!r}", cut_off=True) from err
        if not part and self.connection.http.sock is not None and not self.inner.will_close:
            self.release(self.connection)
            self.release = lambda _: None
        return part

    def read_all(self, most: int) -> bytes:
        parts, size = [], 0
        while part := self.read():
            parts.append(part)
            size += len(part)
            if size > most:
                self.close()
                raise broken(self.operation, self.status, self.headers, f"the answer is longer than {most} bytes")
        return b"".join(parts)

    def close(self) -> None:
        self.inner.close()
        self.connection.close()


class File(io.RawIOBase):
    """A file of the service's. Unless reading it ends without an error it is not whole. Close it."""

    def __init__(self, response: Response, timeout: float):
        self._response, self._timeout, self._whole = response, timeout, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._whole:
            return 0
        sock = self._response.connection.http.sock
        if isinstance(sock, TimedSocket):
            sock.end = time.monotonic() + self._timeout  # of each part
        part = self._response.read(min(len(buffer), CHUNK))
        self._whole = not part
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        if not self._whole and not self.closed:
            self._response.close()
        super().close()


def check_key(key: object) -> None:
    """The error does not show the key: a part of it may be right."""
    if not isinstance(key, str) or not is_visible(key, 1024):
        raise ValueError("the API key is malformed: it must be visible ASCII")


def is_visible(text: str, most: int) -> bool:
    return len(text) <= most and re.fullmatch("[!-~]+", text) is not None


def at(*parts: str) -> str:
    """A path of fixed parts and ids, in turn, which are escaped: at("/v1/rights/", id, "/revoke")."""
    path = ""
    for n, part in enumerate(parts):
        if n % 2 == 1:
            if not isinstance(part, str) or part in ("", ".", ".."):  # a dot would be taken for a step in the path
                raise ValueError(f"{path}: {part!r} is no id")
            part = urllib.parse.quote(part, safe=":")
        path += part
    return path


def query_of(query: Any) -> str:
    """The query of a filter. What is None or empty is left out."""
    pairs = []
    for name, value in (query or {}).items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one not in (None, ""):
                pairs.append((name, str(one)))
    return "?" + urllib.parse.urlencode(pairs) if pairs else ""


def packed(text: bytes) -> bytes:
    return gzip.compress(text, compresslevel=1, mtime=0)
