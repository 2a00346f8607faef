"""A model on loopback in the forms of Anthropic, OpenAI (Responses and chat) and Gemini. It follows words in the prompt.

Without such a word it answers. `STEPS` first calls a tool that reads, then waits for `POST /go`. `TOUCH` and `SLEEP`
first call a tool that runs a command. `HASH` first calls the tool `hash` of the gateway and answers with the digest that
the tool returned. `WRITE` first calls a tool that writes a file named after the program, and `DELEGATE` one that starts
a sub-agent of the program, which does so. `SPAWN` first calls the tool `agent_spawn` of the gateway with the same word
in the prompt, and answers with what the gateway reported to the agents below it. `WAIT` waits for `POST /go`. `GET /asked` returns the number of requests that wait.
"""

import http.server
import json
import re
import sys
import threading

ANSWER, FIRST = "hello from the model", "working on it"
STEPS = {
    "PLEASE-TAKE-STEPS": "read", "PLEASE-TOUCH": "touch", "PLEASE-SLEEP": "sleep", "PLEASE-HASH": "hash",
    "PLEASE-DELEGATE": "delegate", "PLEASE-WRITE": "write", "PLEASE-SPAWN": "spawn",
}
HASHED = {"text": "abc", "algorithm": "sha256"}
DELEGATED = {"description": "write a file", "prompt": "PLEASE-WRITE as a sub-agent", "subagent_type": "general-purpose"}
SPAWNED = {
    "prompt": "PLEASE-SPAWN one more", "agent_type": "lead", "blocking": True, "delegation_reason": "a test",
    "expected_outcome": "a refusal", "required_tools": [],
}
go, waiting = threading.Event(), []
SHELLS = ("shell", "exec_command", "shell_command", "local_shell")
RESULTS = ('"tool_result"', '"function_call_output"', '"functionResponse"', '"role":"tool"', '"role": "tool"')


def offered(tools, is_wanted, within=None):
    """The name of the first tool that is wanted, and the name of the group that it is in, if it is in one."""
    for tool in tools or []:
        inner = tool.get("functionDeclarations") or (tool.get("tools") if tool.get("type") == "namespace" else None)
        if inner is not None:
            found = offered(inner, is_wanted, tool.get("name"))
            if found:
                return found
            continue
        name = tool.get("name") or tool.get("function", {}).get("name") or ""
        if is_wanted(name):
            return name, within
    return None


def written(program):
    """The file that a program writes, and its text."""
    return f"by-{program}.txt", f"a whole line by {program}\n"


def patch(file, content):
    """A command of a shell that lets Codex apply its kind of patch."""
    return f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {file}\n+{content}*** End Patch\nEOF\n"


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.whole({"waiting": len(waiting), "data": [], "models": []})

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("content-length", 0))).decode(errors="replace")
        if self.path == "/go":
            go.set()
            return self.whole({})
        # Only the conversation counts: system prompts are long and use every word.
        request = json.loads(text or "{}")
        words = json.dumps([request.get(key) for key in ("messages", "input", "contents")])
        has_result = any(mark in text for mark in RESULTS)
        call = None if has_result else next((call for mark, call in STEPS.items() if mark in words), None)
        self.hash = offered(request.get("tools"), lambda name: name.endswith("dev__hash"))
        self.shell = offered(request.get("tools"), SHELLS.__contains__)
        self.agent = offered(request.get("tools"), ("Agent", "Task").__contains__)
        self.spawn = offered(request.get("tools"), lambda name: name.endswith("agents__agent_spawn"))
        self.writes_as = "sub-agent" if "as a sub-agent" in words else None
        needed = {"hash": self.hash, "delegate": self.agent, "spawn": self.spawn}
        if not needed.get(call, True):
            # A request beside the conversation, or one before the tools of the gateway are there.
            call = None
        digest = re.search(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])", words)
        reported = re.search(r"(reported: )*agents are nested \d+ deep, which is the limit", words)
        self.answer = ANSWER
        if "PLEASE-HASH" in words and digest:
            self.answer = f"the tool returned {digest[0]}"
        if "PLEASE-SPAWN" in words and reported:
            self.answer = f"reported: {reported[0]}"
        if "PLEASE-WAIT" in words or ("PLEASE-TAKE-STEPS" in words and has_result):
            waiting.append(self.path)
            go.wait(600)
        is_streamed = request.get("stream") or "stream" in self.path
        for mark, answer in (
            ("count", lambda *_: self.whole({"input_tokens": 1, "totalTokens": 1})),
            ("/messages", self.anthropic),
            ("/responses", self.openai),
            ("ontent", self.gemini),
            ("/chat/completions", self.chat),
        ):
            if mark in self.path:
                return answer(call, is_streamed)
        return self.whole({})

    def whole(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def events(self, events):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()

    def anthropic(self, call, is_streamed):
        usage = {"input_tokens": 1000, "output_tokens": 500}
        blocks = [{"type": "text", "text": FIRST if call else self.answer}]
        if call:
            file, content = written(self.writes_as or "claude")
            tools = {
                "read": ("Read", {"file_path": PROJECT + "/notes.txt"}),
                "hash": (self.hash and self.hash[0], HASHED),
                "write": ("Write", {"file_path": f"{PROJECT}/{file}", "content": content}),
                "delegate": (self.agent and self.agent[0], DELEGATED),
                "spawn": (self.spawn and self.spawn[0], SPAWNED),
            }
            name, arguments = tools.get(call) or ("Bash", {"command": COMMANDS[call]})
            blocks.append({"type": "tool_use", "id": "t1", "name": name, "input": arguments})
        message = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "usage": usage}
        message["stop_reason"] = "tool_use" if call else "end_turn"
        if not is_streamed:
            return self.whole({**message, "content": blocks})
        events = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
        for index, block in enumerate(blocks):
            empty = {**block, "input": {}} if "input" in block else {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block.get("text")}
            if "input" in block:
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            events.append({"type": "content_block_start", "index": index, "content_block": empty})
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
            events.append({"type": "content_block_stop", "index": index})
        delta = {"stop_reason": message["stop_reason"]}
        events += [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]
        return self.events(events)

    def openai(self, call, _):
        content = [{"type": "output_text", "text": FIRST if call else self.answer, "annotations": []}]
        items = [{"type": "message", "id": "i1", "role": "assistant", "status": "completed", "content": content}]
        if call:
            (name, group), arguments = self.shell or ("shell", None), HASHED
            if call == "hash":
                name, group = self.hash
            else:
                command = COMMANDS.get(call) or patch(*written("codex"))
                words = command if name == "shell_command" else ["sh", "-c", command]
                arguments = {"command": words, "cmd": command}
                if call == "touch":
                    # Otherwise it fails in the sandbox, and the user is not asked.
                    arguments |= {"sandbox_permissions": "require_escalated", "justification": "to write a file"}
            item = {"type": "function_call", "id": "i2", "call_id": "c1", "name": name, "arguments": json.dumps(arguments)}
            items.append({**item, "namespace": group} if group else item)
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        done = [{"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(items)]
        last = {"id": "r", "status": "completed", "output": items, "usage": usage}
        self.events(
            [{"type": "response.created", "response": {"id": "r"}}, *done, {"type": "response.completed", "response": last}]
        )

    def gemini(self, call, is_streamed):
        parts = [{"text": FIRST if call else self.answer}]
        if call:
            file, content = written("gemini")
            tools = {
                "read": ("read_file", {"file_path": "notes.txt"}),
                "hash": (self.hash and self.hash[0], HASHED),
                "write": ("write_file", {"file_path": f"{PROJECT}/{file}", "content": content}),
            }
            name, arguments = tools.get(call) or ("run_shell_command", {"command": COMMANDS[call]})
            parts.append({"functionCall": {"name": name, "args": arguments}})
        answer = {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        }
        return self.events([answer]) if is_streamed else self.whole(answer)

    def chat(self, call, is_streamed):
        message = {"role": "assistant", "content": FIRST if call else self.answer}
        if call:
            tools = {"read": ("read", {"filePath": PROJECT + "/notes.txt"}), "hash": (self.hash and self.hash[0], HASHED)}
            name, arguments = tools.get(call) or ("bash", {"command": COMMANDS[call], "description": "d"})
            function = {"name": name, "arguments": json.dumps(arguments)}
            message["tool_calls"] = [{"index": 0, "id": "c1", "type": "function", "function": function}]
        base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        reason = "tool_calls" if call else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if not is_streamed:
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return self.whole({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
        first = {**base, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
        last = {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}
        return self.events([first, last])


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


PROJECT = sys.argv[1]
COMMANDS = {"touch": sys.argv[2], "sleep": "sleep 600", "read": "cat notes.txt"}
server = Server(("127.0.0.1", 0), Model)
print(server.server_address[1], flush=True)
server.serve_forever()
