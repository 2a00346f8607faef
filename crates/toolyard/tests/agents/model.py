"""A model on loopback in the forms of Anthropic, OpenAI (Responses and chat) and Gemini. It follows words in the prompt.

Without such a word it answers. `STEPS` first calls a tool that reads, then waits for `POST /go`. `TOUCH` first calls a
tool that runs a command. `WAIT` waits for `POST /go`. `GET /asked` returns the number of requests that wait.
"""

import http.server
import json
import sys
import threading

ANSWER, FIRST = "hello from the model", "working on it"
go, waiting = threading.Event(), []
RESULTS = ('"tool_result"', '"function_call_output"', '"functionResponse"', '"role":"tool"', '"role": "tool"')


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
        is_step = "PLEASE-TAKE-STEPS" in words or "PLEASE-TOUCH" in words
        has_result = any(mark in text for mark in RESULTS)
        call = None
        if is_step and not has_result:
            call = "touch" if "PLEASE-TOUCH" in words else "read"
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
        blocks = [{"type": "text", "text": FIRST if call else ANSWER}]
        if call:
            tools = {"read": ("Read", {"file_path": PROJECT + "/notes.txt"}), "touch": ("Bash", {"command": COMMAND})}
            name, arguments = tools[call]
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
        content = [{"type": "output_text", "text": FIRST if call else ANSWER, "annotations": []}]
        items = [{"type": "message", "id": "i1", "role": "assistant", "status": "completed", "content": content}]
        if call:
            arguments = json.dumps({"command": ["cat", "notes.txt"], "cmd": "cat notes.txt"})
            name = "shell"
            items.append({"type": "function_call", "id": "i2", "call_id": "c1", "name": name, "arguments": arguments})
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        done = [{"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(items)]
        last = {"id": "r", "status": "completed", "output": items, "usage": usage}
        self.events(
            [{"type": "response.created", "response": {"id": "r"}}, *done, {"type": "response.completed", "response": last}]
        )

    def gemini(self, call, is_streamed):
        parts = [{"text": FIRST if call else ANSWER}]
        if call:
            tools = {"read": ("read_file", {"file_path": "notes.txt"}), "touch": ("run_shell_command", {"command": COMMAND})}
            name, arguments = tools[call]
            parts.append({"functionCall": {"name": name, "args": arguments}})
        answer = {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        }
        return self.events([answer]) if is_streamed else self.whole(answer)

    def chat(self, call, is_streamed):
        message = {"role": "assistant", "content": FIRST if call else ANSWER}
        if call:
            path = PROJECT + "/notes.txt"
            tools = {"read": ("read", {"filePath": path}), "touch": ("bash", {"command": COMMAND, "description": "d"})}
            name, arguments = tools[call]
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


PROJECT, COMMAND = sys.argv[1], sys.argv[2]
server = Server(("127.0.0.1", 0), Model)
print(server.server_address[1], flush=True)
server.serve_forever()
