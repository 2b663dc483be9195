"""A real OpenAI-compatible server on 127.0.0.1 that answers and misbehaves as told, and keeps what it was sent."""

import json
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKENS_IN, TOKENS_OUT = 10, 5
USAGE = {"prompt_tokens": TOKENS_IN, "completion_tokens": TOKENS_OUT}


@dataclass(frozen=True)
class Reply:
    """What one request gets.

    Attributes:
        content: of the message.
        finish: its finish reason.
        refusal: the message's refusal.
        status: HTTP status; with ``body`` for anything but 200.
        body: sent as it is instead of a completion.
        headers: further ones.
        seconds: pause before anything is sent.
        drip_s: pause after each byte of the body.
        drop: after how many streamed chunks the connection breaks; -1 = at once, without a status.
        usage: token counts; ``None`` leaves them out.
        endless: go on with the content until the client leaves.
    """

    content: str | None = "{}"
    finish: str | None = "stop"
    refusal: str | None = None
    status: int = 200
    body: bytes | None = None
    headers: dict = field(default_factory=dict)
    seconds: float = 0.0
    drip_s: float = 0.0
    drop: int | None = None
    usage: dict | None = field(default_factory=lambda: dict(USAGE))
    endless: bool = False


def error(status, message, **headers):
    return Reply(status=status, body=json.dumps({"error": {"message": message}}).encode(), headers=headers)


class Server:
    """Plays ``replies`` in order, the last one again and again, or what ``answer`` makes of a request."""

    def __init__(self, replies, answer=None):
        self.replies, self.answer = list(replies), answer
        self.requests, self.headers, self.open, self.most_open = [], [], 0, 0
        self.lock, self.url = threading.Lock(), ""

    def next(self, request):
        if self.answer is not None:
            return self.answer(request)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def whole(reply):
    message = {"role": "assistant", "content": reply.content}
    if reply.refusal:
        message["refusal"] = reply.refusal
    data = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    data["choices"] = [{"index": 0, "finish_reason": reply.finish, "message": message}]
    return json.dumps(data | ({"usage": reply.usage} if reply.usage else {})).encode()


def chunks(reply):
    """Three-character pieces, the end, the usage in a chunk without choices, as OpenAI sends it."""
    text = reply.content or ""
    deltas = [{"content": text[i : i + 3]} for i in range(0, len(text), 3)]
    for delta in [{"role": "assistant", "content": ""}, *deltas]:
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish}]}
    if reply.usage:
        yield {"choices": [], "usage": reply.usage}


class Handler(BaseHTTPRequestHandler):
    server_of: Server

    def do_POST(self):
        server = self.server_of
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.requests.append(request)
            server.headers.append({name.title(): value for name, value in self.headers.items()})
            server.open += 1
            server.most_open = max(server.most_open, server.open)
            reply = server.next(request)
        try:
            time.sleep(reply.seconds)
            with suppress(OSError):
                self.send(reply, request)
        finally:
            with server.lock:
                server.open -= 1

    def send(self, reply, request):
        if reply.drop == -1:
            self.connection.close()
        elif request.get("stream") and reply.body is None:
            self.stream(reply)
        else:
            body = whole(reply) if reply.body is None else reply.body
            self.begin(reply, "application/json", {"Content-Length": str(len(body))})
            for byte in range(len(body)) if reply.drip_s else ():
                self.wfile.write(body[byte : byte + 1])
                time.sleep(reply.drip_s)
            if not reply.drip_s:
                self.wfile.write(body)

    def begin(self, reply, kind, headers):
        self.send_response(reply.status)
        for name, value in ({"Content-Type": kind} | headers | reply.headers).items():
            self.send_header(name, value)
        self.end_headers()

    def stream(self, reply):
        self.begin(reply, "text/event-stream; charset=utf-8", {"Connection": "close"})
        self.close_connection = True
        for number, chunk in enumerate(chunks(reply)):
            if reply.drop is not None and number >= reply.drop:
                return
            self.wfile.write(b": a comment\n\ndata: " + json.dumps(chunk).encode() + b"\n\n")
            while reply.endless and number == 1:
                self.wfile.write((b"data: " + json.dumps(chunk).encode() + b"\n\n") * 200)
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *args):
        pass


@contextmanager
def serving(*replies, answer=None):
    server = Server([Reply(one) if isinstance(one, str) else one for one in replies], answer)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"server_of": server}))
    httpd.daemon_threads = True
    server.url = f"http://127.0.0.1:{httpd.server_port}/v1"
    threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
