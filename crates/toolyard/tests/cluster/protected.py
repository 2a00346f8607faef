"""An MCP server that requires OAuth, and its own authorization server. Its user agrees to everything. Access tokens are
due at once, and a refresh token is valid once: another use revokes everything. Each grant is recorded in a file. With a
second argument `open`, it requires nothing. The tool `whose` returns the number of the sign-in that its call uses. A
gateway can ask about the tokens `ann` and `bob`, each of which is of the user with this name."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

# Part of every token.
SECRET = "token-of-this-test"
lock = threading.Lock()
count = 0
sign_ins = 0
# Tokens that are valid, with the number of their sign-in.
refresh = {}
valid = {}


def grant(form):
    global count, sign_ins
    kind = form["grant_type"][0]
    with lock:
        if kind == "refresh_token":
            number = refresh.pop(form["refresh_token"][0], None)
        else:
            sign_ins += 1
            number = sign_ins
        if number is None:
            refresh.clear()
            valid.clear()
            kind = "reused"
        with open(sys.argv[1], "a") as grants:
            grants.write(kind + "\n")
        if kind == "reused":
            return 400, {"error": "invalid_grant"}
        count += 1
        refresh[f"{SECRET}-refresh-{count}"] = number
        valid[f"{SECRET}-{count}"] = number
        return 200, {"access_token": f"{SECRET}-{count}", "token_type": "Bearer", "expires_in": 1, "refresh_token": f"{SECRET}-refresh-{count}"}


def introspection(form):
    user = form["token"][0]
    return 200, {"active": user in ["ann", "bob"], "sub": user, "aud": "team"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=None, **headers):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        base = f"http://127.0.0.1:{self.server.server_port}"
        url = urlparse(self.path)
        if url.path == "/.well-known/oauth-protected-resource/mcp":
            self.answer(200, {"resource": base + "/mcp", "authorization_servers": [base]})
        elif url.path == "/.well-known/oauth-authorization-server":
            at = {name + "_endpoint": f"{base}/{name}" for name in ["authorization", "token", "registration"]}
            self.answer(200, {"issuer": base, **at, "code_challenge_methods_supported": ["S256"]})
        elif url.path == "/authorization":
            query = {key: value[0] for key, value in parse_qs(url.query).items()}
            self.answer(302, Location=f"{query['redirect_uri']}?code=c&state={query['state']}")
        else:
            self.answer(405)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/registration":
            self.answer(201, {"client_id": "yard"})
        elif self.path == "/token":
            self.answer(*grant(parse_qs(body.decode())))
        elif self.path == "/introspection":
            self.answer(*introspection(parse_qs(body.decode())))
        elif "open" not in sys.argv and self.sign_in() is None:
            self.answer(401, WWW_Authenticate='Bearer scope="read"')
        else:
            self.mcp(json.loads(body))

    def sign_in(self):
        return valid.get((self.headers["Authorization"] or "").removeprefix("Bearer "))

    def mcp(self, message):
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ["hello", "whose"]]
        is_whose = message.get("params", {}).get("name") == "whose"
        text = f"sign-in {self.sign_in()}" if is_whose else "hello"
        results = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "far", "version": "1"}},
            "tools/list": {"tools": tools},
            "tools/call": {"content": [{"type": "text", "text": text}]},
        }
        if "id" not in message:
            return self.answer(202)
        known = message["method"] in results
        answer = {"result": results[message["method"]]} if known else {"error": {"code": -32601, "message": "unknown"}}
        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], **answer})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
