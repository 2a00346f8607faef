"""A legacy MCP server on stdio whose tool `think` asks the client's model and returns its answer."""

import json
import sys


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def think(call):
    times = call["params"].get("arguments", {}).get("times", 1)
    parts = []
    for number in range(times):
        message = {"role": "user", "content": {"type": "text", "text": "a secret prompt"}}
        params = {"messages": [message], "maxTokens": 100000, "systemPrompt": "Be brief."}
        send({"id": f"s{number}", "method": "sampling/createMessage", "params": params})
        for line in sys.stdin:
            answer = json.loads(line)
            if answer.get("id") == f"s{number}":
                break
        if "error" in answer:
            parts.append("error: " + answer["error"]["message"])
        else:
            parts.append(answer["result"]["content"]["text"] + " by " + answer["result"]["model"])
    send({"id": call["id"], "result": {"content": [{"type": "text", "text": "; ".join(parts)}]}})


for line in sys.stdin:
    request = json.loads(line)
    method = request.get("method")
    if method == "initialize":
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "sampler", "version": "1"},
        }
        send({"id": request["id"], "result": result})
    elif method == "tools/list":
        tool = {"name": "think", "description": "Thinks.", "inputSchema": {"type": "object"}}
        send({"id": request["id"], "result": {"tools": [tool]}})
    elif method == "tools/call":
        think(request)
    elif method == "ping":
        send({"id": request["id"], "result": {}})
    elif "id" in request:
        send({"id": request["id"], "error": {"code": -32601, "message": "no"}})
