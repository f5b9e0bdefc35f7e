"""A model that plays a script, on loopback: what real agent clients talk to in these tests.

It speaks the four dialects they speak (Anthropic Messages, OpenAI Responses and Chat Completions,
Gemini), streamed or not, keeps every request, and answers each with the script's next step. Which
step is next follows from the answers to our own calls that stand in the request, so titles,
summaries and retries that a client asks for on the side never move the script.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
_ID = re.compile(r"step_(\d+)_")
OVER = "the script is over"


@dataclass(frozen=True)
class Call:
    """One tool call. `hidden`: the name is used as it is, whether or not it was offered; without,
    it is found among the offered tools, behind whatever prefix the client put before it.

    `script`: free text for tools that take no JSON (one client's JavaScript and patches).
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    hidden: bool = False
    script: str | None = None


Step = Call | str
"""A call, or text that ends the conversation."""


@dataclass(frozen=True)
class Tool:
    """A tool as a client offered it: `label` for people, the rest is how to call it."""

    label: str
    name: str
    namespace: str = ""
    free_form: bool = False


@dataclass(frozen=True)
class Asked:
    """One request of a client: the tools it offered, the results it has, what we answered."""

    dialect: str
    tools: tuple[Tool, ...]
    results: Mapping[str, str]
    answered: str
    system: str


# --- what a request holds -----------------------------------------------------------------------


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_text(item) for item in value)
    if isinstance(value, dict):
        inner = value.get("text")
        return inner if isinstance(inner, str) else json.dumps(value)
    return "" if value is None else json.dumps(value)


def _anthropic_results(body: Json) -> Iterator[tuple[str, str]]:
    for message in body.get("messages", []):
        content = message.get("content")
        for part in content if isinstance(content, list) else []:
            if part.get("type") == "tool_result":
                yield part["tool_use_id"], _text(part.get("content"))


def _chat_results(body: Json) -> Iterator[tuple[str, str]]:
    for message in body.get("messages", []):
        if message.get("role") == "tool":
            yield message["tool_call_id"], _text(message.get("content"))


def _responses_results(body: Json) -> Iterator[tuple[str, str]]:
    given = body.get("input")
    for item in given if isinstance(given, list) else []:
        if str(item.get("type", "")).endswith("_call_output"):
            yield str(item.get("call_id")), _text(item.get("output"))


def _gemini_results(body: Json) -> Iterator[tuple[str, str]]:
    for content in body.get("contents", []):
        for part in content.get("parts", []):
            found = part.get("functionResponse")
            if found is not None:
                yield str(found.get("id")), _text(found.get("response"))


def _anthropic_tools(body: Json) -> Iterator[Tool]:
    for tool in body.get("tools") or []:
        name = str(tool.get("name") or tool.get("type"))
        yield Tool(name, name)


def _chat_tools(body: Json) -> Iterator[Tool]:
    for tool in body.get("tools") or []:
        name = str((tool.get("function") or tool.get("custom") or {}).get("name"))
        yield Tool(name, name, free_form="custom" in tool)


def _responses_tools(body: Json) -> Iterator[Tool]:
    given = body.get("input")
    offered = list(body.get("tools") or [])
    for item in given if isinstance(given, list) else []:
        if item.get("type") == "additional_tools":
            offered += item.get("tools") or []
    for tool in offered:
        if tool.get("type") == "namespace":
            space = str(tool["name"])
            for inner in tool.get("tools") or []:
                name = str(inner["name"])
                yield Tool(
                    f"{space}/{name}",
                    name,
                    "" if space == "functions" else space,
                    inner.get("type") == "custom",
                )
                yield from _nested(inner)
        else:
            name = str(tool.get("name") or tool.get("type"))
            yield Tool(name, name, free_form=tool.get("type") == "custom")
            yield from _nested(tool)


def _nested(tool: Json) -> Iterator[Tool]:
    """The tools that one client offers inside a JavaScript tool, named in its description."""
    if tool.get("name") == "exec":
        for name in re.findall(r"^### `(\w+)`", str(tool.get("description")), re.MULTILINE):
            yield Tool(f"exec>{name}", name, "exec>")


def _gemini_tools(body: Json) -> Iterator[Tool]:
    for tool in body.get("tools") or []:
        for name, value in tool.items():
            if name in ("functionDeclarations", "function_declarations"):
                yield from (Tool(str(f["name"]), str(f["name"])) for f in value)
            else:
                yield Tool(f"hosted {name}", name)


# --- what is answered ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """One answer: text, or calls with their ids."""

    text: str = ""
    calls: tuple[tuple[str, Tool, Call], ...] = ()


def _events(events: Sequence[Json], *, named: bool) -> bytes:
    out = []
    for event in events:
        head = f"event: {event['type']}\n" if named else ""
        out.append(f"{head}data: {json.dumps(event)}\n\n")
    return "".join(out).encode()


def _anthropic_answer(turn: Turn, body: Json, key: str) -> Json | bytes:
    blocks: list[Json] = [
        {"type": "tool_use", "id": each, "name": tool.name, "input": dict(call.args)}
        for each, tool, call in turn.calls
    ] or [{"type": "text", "text": turn.text}]
    reason = "tool_use" if turn.calls else "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": f"msg_{key}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage,
    }
    if not body.get("stream"):
        return message
    start = {**message, "content": [], "stop_reason": None}
    events: list[Json] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty: Json = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        at = {"index": index}
        events.append({"type": "content_block_start", **at, "content_block": empty})
        events.append({"type": "content_block_delta", **at, "delta": delta})
        events.append({"type": "content_block_stop", **at})
    end = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": usage})
    events.append({"type": "message_stop"})
    return _events(events, named=True)


def _chat_answer(turn: Turn, body: Json, key: str) -> Json | bytes:
    calls = [
        {"index": index, "id": each, **_chat_call(tool, call)}
        for index, (each, tool, call) in enumerate(turn.calls)
    ]
    said: Json = {"role": "assistant", "content": None if calls else turn.text}
    if calls:
        said["tool_calls"] = calls
    reason = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    base: Json = {"id": key, "created": 1, "model": body.get("model")}
    if not body.get("stream"):
        choice = {"index": 0, "message": said, "finish_reason": reason}
        return {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
    base["object"] = "chat.completion.chunk"
    chunks = [
        {**base, "choices": [{"index": 0, "delta": said, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**base, "choices": [], "usage": usage},
    ]
    return _events(chunks, named=False) + b"data: [DONE]\n\n"


def _chat_call(tool: Tool, call: Call) -> Json:
    if call.script is not None:
        return {"type": "custom", "custom": {"name": tool.name, "input": call.script}}
    arguments = json.dumps(dict(call.args))
    return {"type": "function", "function": {"name": tool.name, "arguments": arguments}}


def _response_item(each: str, tool: Tool, call: Call) -> Json:
    if call.script is not None:
        shape: Json = {"type": "custom_tool_call", "input": call.script}
    else:
        shape = {"type": "function_call", "arguments": json.dumps(dict(call.args))}
    if tool.namespace:
        shape["namespace"] = tool.namespace
    return {**shape, "id": f"item_{each}", "call_id": each, "name": tool.name}


def _responses_answer(turn: Turn, body: Json, key: str) -> Json | bytes:
    items = [_response_item(*each) for each in turn.calls] or [
        {
            "type": "message",
            "id": f"msg_{key}",
            "role": "assistant",
            "content": [{"type": "output_text", "text": turn.text, "annotations": []}],
        }
    ]
    items = [{**item, "status": "completed"} for item in items]
    whole: Json = {
        "id": f"resp_{key}",
        "object": "response",
        "created_at": 1,
        "model": body.get("model"),
        "status": "completed",
        "output": items,
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }
    if not body.get("stream"):
        return whole
    begun = {**whole, "status": "in_progress", "output": []}
    events: list[Json] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(items):
        events += _item_events(index, item)
    events.append({"type": "response.completed", "response": whole})
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    return _events(numbered, named=True)


def _item_events(index: int, item: Json) -> Iterator[Json]:
    begun = {**item, "status": "in_progress"}
    if item["type"] == "message":
        begun["content"] = []
    elif item["type"] == "function_call":
        begun["arguments"] = ""
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    at = {"item_id": item["id"], "output_index": index}
    if item["type"] == "message":
        part = item["content"][0]
        at["content_index"] = 0
        yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
        yield {"type": "response.output_text.delta", **at, "delta": part["text"]}
        yield {"type": "response.output_text.done", **at, "text": part["text"]}
        yield {"type": "response.content_part.done", **at, "part": part}
    elif item["type"] == "function_call":
        arguments = item["arguments"]
        kind = "response.function_call_arguments"
        yield {"type": f"{kind}.delta", **at, "delta": arguments}
        yield {"type": f"{kind}.done", **at, "name": item["name"], "arguments": arguments}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _gemini_answer(turn: Turn, body: Json, key: str) -> Json | bytes:
    parts: list[Json] = [
        {"functionCall": {"id": each, "name": tool.name, "args": dict(call.args)}}
        for each, tool, call in turn.calls
    ] or [{"text": turn.text}]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    answer: Json = {
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 2, "candidatesTokenCount": 1},
        "modelVersion": "scripted",
        "responseId": key,
    }
    return _events([answer], named=False) if body.get("stream") else answer


@dataclass(frozen=True)
class Dialect:
    """One dialect: where it is spoken, how its requests are read, how it is answered."""

    name: str
    path: re.Pattern[str]
    tools: Callable[[Json], Iterator[Tool]]
    results: Callable[[Json], Iterator[tuple[str, str]]]
    answer: Callable[[Turn, Json, str], Json | bytes]


DIALECTS = (
    Dialect(
        "anthropic",
        re.compile(r"/messages$"),
        _anthropic_tools,
        _anthropic_results,
        _anthropic_answer,
    ),
    Dialect("chat", re.compile(r"/chat/completions$"), _chat_tools, _chat_results, _chat_answer),
    Dialect(
        "responses",
        re.compile(r"/responses$"),
        _responses_tools,
        _responses_results,
        _responses_answer,
    ),
    Dialect(
        "gemini",
        re.compile(r":(?:streamG|g)enerateContent$"),
        _gemini_tools,
        _gemini_results,
        _gemini_answer,
    ),
)


# --- the model ----------------------------------------------------------------------------------

_IN_JAVASCRIPT = """\
const found = ALL_TOOLS.find(t => t.name === %(name)s || t.name.endsWith("__" + %(name)s));
if (found) { text(await tools[found.name](%(args)s)); }
else { text("no such tool among " + ALL_TOOLS.map(t => t.name).join(" ")); }
"""


class Model:
    """Serves `script` at `url` until closed. `asked` = every request that offered tools."""

    def __init__(self, script: Sequence[Step]) -> None:
        self.script = tuple(script)
        self.asked: list[Asked] = []
        self.others: list[str] = []
        self._turn = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def offered(self) -> set[str]:
        """Labels of all tools that were offered to the model at any time."""
        return {tool.label for asked in self.asked for tool in asked.tools}

    def results(self) -> dict[int, str]:
        """What came back for each step of the script that was a call."""
        found: dict[int, str] = {}
        for asked in self.asked:
            for key, text in asked.results.items():
                if match := _ID.search(key):
                    found[int(match[1])] = text
        return found

    def reply(self, path: str, body: Json) -> Json | bytes | None:
        """Answer one request; None where no dialect is spoken at `path`."""
        for dialect in DIALECTS:
            if dialect.path.search(path):
                if ":stream" in path:
                    body = {**body, "stream": True}
                return self._reply(dialect, body)
        return None

    def _reply(self, dialect: Dialect, body: Json) -> Json | bytes:
        tools = tuple(dialect.tools(body))
        results = dict(dialect.results(body))
        with self._turn:
            turn = self._next(tools, results) if tools else Turn("ok")
            said = turn.text or ", ".join(tool.name for _, tool, _ in turn.calls)
            system = _text(body.get("system") or body.get("systemInstruction"))
            system = system or _text(body.get("instructions") or (body.get("messages") or [""])[0])
            if tools:
                self.asked.append(Asked(dialect.name, tools, results, said, system))
            key = f"{len(self.asked)}"
        return dialect.answer(turn, body, key)

    def _next(self, tools: tuple[Tool, ...], results: Mapping[str, str]) -> Turn:
        done = [int(match[1]) for key in results if (match := _ID.search(key))]
        number = max(done) + 1 if done else 0
        step = self.script[number] if number < len(self.script) else OVER
        if isinstance(step, str):
            return Turn(step)
        tool, call = _aim(step, tools)
        return Turn(calls=((f"step_{number}_0", tool, call),))


def _aim(call: Call, tools: tuple[Tool, ...]) -> tuple[Tool, Call]:
    """Find the tool that a call means among those offered."""
    behind = re.compile(rf"(?:^|[_\-./>]){re.escape(call.name)}$")
    exact = [tool for tool in tools if tool.name == call.name and tool.namespace != "exec>"]
    if call.hidden:
        return (exact or [Tool(call.name, call.name)])[0], call
    direct = exact or [t for t in tools if behind.search(t.label) and t.namespace != "exec>"]
    if direct:
        return direct[0], call
    shell = [tool for tool in tools if tool.name == "exec" and tool.free_form]
    if not shell:
        return Tool(call.name, call.name), call
    source = _IN_JAVASCRIPT % {
        "name": json.dumps(call.name),
        "args": json.dumps(dict(call.args)),
    }
    return shell[0], Call("exec", script=source)


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Keep quiet."""

        def do_GET(self) -> None:
            model.others.append(f"GET {self.path}")
            if "models" not in self.path:
                self._send(404, {"error": {"message": "not here"}})
                return
            entry = {"id": "scripted", "object": "model", "type": "model", "owned_by": "test"}
            self._send(200, {"object": "list", "data": [entry], "has_more": False, "models": []})

        def do_HEAD(self) -> None:
            self._send(200, b"")

        def do_POST(self) -> None:
            raw = self._body()
            path = self.path.partition("?")[0]
            try:
                body = json.loads(raw or b"{}")
            except ValueError:
                body = None
            answer = model.reply(path, body) if isinstance(body, dict) else None
            if answer is not None:
                self._send(200, answer)
                return
            model.others.append(f"POST {self.path}")
            if path.lower().endswith(("count_tokens", ":counttokens")):
                self._send(200, {"input_tokens": 1, "totalTokens": 1})
            else:
                self._send(404, {"error": {"message": "not here"}})

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("transfer-encoding", ""):
                raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            else:
                raw = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    raw += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            return (
                gzip.decompress(raw) if "gzip" in self.headers.get("content-encoding", "") else raw
            )

        def _send(self, status: int, payload: Json | bytes) -> None:
            streamed = isinstance(payload, bytes)
            data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
            self.send_response(status)
            kind = "text/event-stream" if streamed else "application/json"
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                try:
                    self.wfile.write(data)
                except OSError:
                    self.close_connection = True

    return Handler
