"""A legacy MCP server on stdio that serves the skill of its argument by the extension for skills."""

import hashlib
import json
import sys

NAME = sys.argv[1]
URI = f"skill://{NAME}/SKILL.md"
TEXT = f"---\nname: {NAME}\ndescription: The skill {NAME} of a server\n---\nBody of {NAME}.\n"


def entry():
    listed = "tampered" if NAME == "tampered" else TEXT
    digest = "sha256:" + hashlib.sha256(listed.encode()).hexdigest()
    front = {"name": NAME, "description": f"The skill {NAME} of a server"}
    return {"uri": URI, "frontmatter": front, "resources": [{"uri": URI, "digest": digest, "size": len(TEXT)}]}


def answer(request):
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        capabilities = {"resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}}
        info = {"name": "skills", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
    if method == "skills/list":
        return {"skills": [entry()]}
    if method == "skills/get" and params["uri"] == URI:
        return {"skill": entry()}
    if method == "resources/read" and params["uri"] == URI:
        return {"contents": [{"uri": URI, "mimeType": "text/markdown", "text": TEXT}]}
    if method in ("resources/list", "resources/templates/list"):
        return {"resources": [], "resourceTemplates": []}
    return {} if method == "ping" else None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request or "method" not in request:
        continue
    result = answer(request)
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    if result is None:
        reply["error"] = {"code": -32602, "message": "there is no such thing"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
