"""A language server for files of words: every word is a symbol, and rename changes it in all files of the project."""
import json
import os
import re
import sys
from urllib.parse import unquote

root = ""


def read():
    length = 0
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(0)
        line = line.strip()
        if not line:
            return json.loads(sys.stdin.buffer.read(length))
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])


def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()


def word_at(params):
    path = unquote(params["textDocument"]["uri"][len("file://"):])
    line = open(path).read().split("\n")[params["position"]["line"]]
    for match in re.finditer(r"\w+", line):
        if match.start() <= params["position"]["character"] <= match.end():
            return match.group()
    return ""


def places(word):
    for name in sorted(os.listdir(root)):
        if name.endswith(".word"):
            for number, line in enumerate(open(os.path.join(root, name)).read().split("\n")):
                for match in re.finditer(rf"\b{word}\b", line):
                    start = {"line": number, "character": match.start()}
                    end = {"line": number, "character": match.end()}
                    yield "file://" + os.path.join(root, name), {"start": start, "end": end}


while True:
    message = read()
    method, params = message.get("method"), message.get("params") or {}
    result = None
    if method == "initialize":
        root = unquote(params["rootUri"][len("file://"):])
        capabilities = {"hoverProvider": True, "renameProvider": True, "referencesProvider": True}
        result = {"capabilities": {"positionEncoding": "utf-32", **capabilities}}
    elif method == "textDocument/hover":
        result = {"contents": f"{word_at(params)}, process {os.getpid()}"}
    elif method == "textDocument/references":
        result = [{"uri": uri, "range": span} for uri, span in places(word_at(params))]
    elif method == "textDocument/rename":
        changes = {}
        for uri, span in places(word_at(params)):
            changes.setdefault(uri, []).append({"range": span, "newText": params["newName"]})
        result = {"changes": changes}
    elif method == "exit":
        sys.exit(0)
    if "id" in message:
        send({"id": message["id"], "result": result})
