"""A server on the Python SDK, of both eras: `server.py stdio` or `server.py http`."""

import asyncio
import socket
import sys
from typing import Annotated

import uvicorn
from mcp import types
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve, Sample
from pydantic import BaseModel

server = MCPServer("python-peer", version="1")


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Answers with its text."""
    return f"Python: {text}"


@server.tool(structured_output=False)
async def count(context: Context) -> str:
    """Reports progress."""
    for step in (1, 2, 3):
        await context.report_progress(step, 3, f"step {step}")
    return "Counted to three"


class Name(BaseModel):
    name: str


def ask_name() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


@server.tool(structured_output=False)
def greet(answer: Annotated[Name, Resolve(ask_name)]) -> str:
    """Asks the user for a name."""
    return f"Hello, {answer.name}!"


def ask_model() -> Sample:
    question = types.TextContent(type="text", text="What would a model say?")
    return Sample([types.SamplingMessage(role="user", content=question)], max_tokens=10)


@server.tool(structured_output=False)
def think(answer: Annotated[types.CreateMessageResult, Resolve(ask_model)]) -> str:
    """Asks a model."""
    return f"The model: {answer.content.text}"


@server.resource("note://one", mime_type="text/plain")
def note() -> str:
    """A text."""
    return "A note from Python"


@server.prompt()
def hello() -> str:
    """A prompt."""
    return "Say hello from Python"


async def serve():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
    app = server.streamable_http_app()
    await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listener])


if sys.argv[1] == "http":
    asyncio.run(serve())
else:
    server.run("stdio")
