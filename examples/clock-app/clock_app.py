"""An app in Python, with nothing but the standard library: the bare protocol of docs/guide/app-protocol.md.

    python3 clock_app.py [HOST:PORT]
"""
import json
import socket
import sys
import threading
import time

HOST, PORT = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:5100").rsplit(":", 1)


def now(_):
    return str(int(time.time()))


def ring(_):
    raise RuntimeError("the bell is missing")


NUMBER = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}
TOOLS = {
    "now": (now, "Returns the time, in seconds since 1970", {"type": "object"}),
    "add": (lambda given: {"sum": given["a"] + given["b"]}, "Adds two numbers", NUMBER),
    "ring": (ring, "Rings the bell, which this clock does not have", {"type": "object"}),
}


def register(session):
    tools = [{"name": name, "description": about, "inputSchema": schema} for name, (_, about, schema) in TOOLS.items()]
    message = {"type": "register", "appName": "PythonClock", "version": 1, "tools": tools}
    return message | ({"sessionId": session} if session else {})


def answer(call):
    try:
        data = TOOLS[call["tool"]][0](call["parameters"] or {})
        result = {"success": True, "data": data, "error": None}
    except Exception as error:  # whatever went wrong is for the agent to know
        result = {"success": False, "data": None, "error": str(error)}
    return {"type": "toolResponse", "correlationId": call["correlationId"], "result": result}


def serve(connection, session):
    lock = threading.Lock()  # two threads must not write at the same time

    def send(message):
        with lock:
            connection.sendall(json.dumps(message).encode() + b"\n")

    send(register(session))
    for line in connection.makefile("r", encoding="utf-8"):
        message = json.loads(line)
        kind = message.get("type")
        if kind == "registered":
            session = message["sessionId"] or session
        elif kind == "refused":
            print(message["reason"], message["guidance"], file=sys.stderr)
        elif kind == "toolInvocation":
            # A slow tool must not keep the others waiting.
            threading.Thread(target=lambda call=message: send(answer(call)), daemon=True).start()
        elif kind == "heartbeat" and not message.get("answer"):
            send({"type": "heartbeat", "answer": True})
    return session


def main():
    session, wait = None, 1
    while True:
        try:
            with socket.create_connection((HOST, int(PORT))) as connection:
                wait = 1
                session = serve(connection, session)
        except OSError:
            pass
        time.sleep(wait)
        wait = min(wait * 2, 30)


main()
