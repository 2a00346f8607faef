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


def symbols():
    for name in sorted(os.listdir(root)):
        if name.endswith(".word"):
            words = set(re.findall(r"\w+", open(os.path.join(root, name)).read()))
            for word in sorted(words):
                uri, span = next(place for place in places(word) if place[0].endswith("/" + name))
                yield {"name": word, "kind": 13, "location": {"uri": uri, "range": span}}


def actions(uri, span):
    path = unquote(uri[len("file://"):])
    first = open(path).read().split("\n")[0]
    line = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": len(first)}}
    shout = {"changes": {uri: [{"range": line, "newText": first.upper()}]}}
    extract = {"changes": {uri: [{"range": span, "newText": "extracted()"},
                                 {"range": {"start": line["end"], "end": line["end"]}, "newText": "\nfn extracted() {}"}]}}
    return [{"title": "Shout", "kind": "quickfix", "edit": shout},
            {"title": "Extract into function", "kind": "refactor.extract.function", "edit": extract}]


while True:
    message = read()
    method, params = message.get("method"), message.get("params") or {}
    result = None
    if method == "initialize":
        root = unquote(params["rootUri"][len("file://"):])
        can = ["hover", "rename", "references", "definition", "documentSymbol", "workspaceSymbol", "codeAction"]
        capabilities = {f"{what}Provider": True for what in can}
        result = {"capabilities": {"positionEncoding": "utf-32", **capabilities}}
    elif method == "textDocument/hover":
        result = {"contents": f"{word_at(params)}, process {os.getpid()}"}
    elif method == "textDocument/references":
        result = [{"uri": uri, "range": span} for uri, span in places(word_at(params))]
    elif method == "textDocument/definition":
        # The first place of a word defines it.
        result = [{"uri": uri, "range": span} for uri, span in places(word_at(params))][:1]
    elif method == "textDocument/documentSymbol":
        result = [symbol for symbol in symbols() if symbol["location"]["uri"] == params["textDocument"]["uri"]]
    elif method == "workspace/symbol":
        result = [symbol for symbol in symbols() if params["query"] in symbol["name"]]
    elif method == "textDocument/codeAction":
        result = actions(params["textDocument"]["uri"], params["range"])
    elif method == "textDocument/rename":
        changes = {}
        for uri, span in places(word_at(params)):
            changes.setdefault(uri, []).append({"range": span, "newText": params["newName"]})
        result = {"changes": changes}
    elif method == "exit":
        sys.exit(0)
    if "id" in message:
        send({"id": message["id"], "result": result})
