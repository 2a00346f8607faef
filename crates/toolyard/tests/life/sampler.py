"""An MCP server of both eras on stdio whose tool `think` asks the client's model and returns its answer."""

import json
import sys


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def think(call):
    times = call["params"].get("arguments", {}).get("times", 1)
    parts = []
    for number in range(times):
        message = {"role": "user", "content": {"type": "text", "text": "a secret prompt"}}
        earlier = [{"type": "text", "text": text} for text in call["params"]["arguments"].get("earlier", [])]
        history = [{"role": "user", "content": earlier}] if earlier else []
        params = {"messages": [*history, message], "maxTokens": 100000, "systemPrompt": "Be brief."}
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


def think_modern(call):
    """Each round asks for what is missing; the state holds what was answered."""
    params, meta = call["params"], call["params"]["_meta"]
    if "sampling" not in meta["io.modelcontextprotocol/clientCapabilities"]:
        return {"content": [{"type": "text", "text": "error: the client cannot sample"}], "isError": True}
    arguments, answered = params.get("arguments", {}), params.get("inputResponses", {})
    parts = json.loads(params.get("requestState", "[]"))
    sure = arguments.get("confirm") is None or "sure" in answered or "sure" in parts
    parts += ["sure"] if "sure" in answered else []
    if "model" in answered:
        parts.append(answered["model"]["content"]["text"] + " by " + answered["model"]["model"])
    texts = [part for part in parts if part != "sure"]
    if sure and len(texts) >= arguments.get("times", 1):
        return {"content": [{"type": "text", "text": "; ".join(texts)}], "resultType": "complete"}
    message = {"role": "user", "content": {"type": "text", "text": "a secret prompt"}}
    asks = {"model": {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 9}}}
    if not sure:
        form = {"type": "object", "properties": {}}
        params = {"mode": "form", "message": "Sure?", "requestedSchema": form}
        asks["sure"] = {"method": "elicitation/create", "params": params}
    return {"resultType": "input_required", "inputRequests": asks, "requestState": json.dumps(parts)}


for line in sys.stdin:
    request = json.loads(line)
    method = request.get("method")
    if method == "server/discover":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
        result["_meta"] = {"io.modelcontextprotocol/serverInfo": {"name": "sampler", "version": "1"}}
        send({"id": request["id"], "result": {**result, "ttlMs": 0, "cacheScope": "public"}})
        continue
    if method == "tools/call" and "io.modelcontextprotocol/clientCapabilities" in request["params"].get("_meta", {}):
        send({"id": request["id"], "result": think_modern(request)})
        continue
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
