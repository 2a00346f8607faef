"""An MCP server on stdio whose tools return the id of the process. It records its start and each call."""

import json
import os
import sys
import time

TOOLS = ["pid", "add", "grow", "hold"]
count = 0


def description():
    """A test can set it in a file."""
    try:
        with open(os.environ["CALLS"] + ".description") as text:
            return text.read()
    except FileNotFoundError:
        return "Returns the id of the process."


def answer(method, params):
    global count
    if method == "initialize":
        info = {"name": "counter", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info}
    if method == "tools/list":
        about = description()
        return {"tools": [{"name": name, "description": about, "inputSchema": {"type": "object"}} for name in TOOLS]}
    if method == "tools/call" and params["name"] == "grow":
        TOOLS.append(params["arguments"]["name"])
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
        return {"content": [{"type": "text", "text": "grown"}]}
    if method == "tools/call":
        count += 1
        with open(os.environ["CALLS"], "a") as calls:
            calls.write(json.dumps([os.getpid(), params.get("arguments"), time.time(), params.get("_meta")]) + "\n")
        if params["name"] == "hold":
            # Longer than any test waits.
            time.sleep(600)
        return {"content": [{"type": "text", "text": str(os.getpid())}]}
    return {}


with open(os.environ["CALLS"] + ".starts", "a") as starts:
    starts.write(f"{os.getpid()}\n")
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
