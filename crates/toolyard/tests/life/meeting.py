"""A legacy MCP server on stdio. `meet` returns once the server of the other name is called, too; `tick` returns at once;
`wipe` declares that it destroys something and leaves a file."""

import json
import pathlib
import sys
import time

FOLDER, OWN, OTHER = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
READ_ONLY, DESTRUCTIVE = {"readOnlyHint": True}, {"destructiveHint": True}
TOOLS = {"meet": READ_ONLY, "tick": READ_ONLY, "wipe": DESTRUCTIVE}


def meet():
    (FOLDER / OWN).touch()
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        if (FOLDER / OTHER).exists():
            return f"{OWN} met {OTHER}"
        time.sleep(0.01)
    return f"{OWN} was alone"


def answer(request):
    method = request["method"]
    if method == "initialize":
        info = {"name": OWN, "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        schema = {"type": "object"}
        return {"tools": [{"name": name, "inputSchema": schema, "annotations": TOOLS[name]} for name in TOOLS]}
    if method == "tools/call":
        name = request["params"]["name"]
        if name == "wipe":
            (FOLDER / f"{OWN}-wiped").touch()
        text = meet() if name == "meet" else "tock"
        return {"content": [{"type": "text", "text": text}]}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}), flush=True)
