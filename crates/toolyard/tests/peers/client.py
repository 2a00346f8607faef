"""A client on the Python SDK: `client.py MODE STOPS`.

MODE is what the SDK calls it (`auto`, `legacy` or a modern version). STOPS is a JSON list: where to go and
what to ask there. Prints one JSON line for each stop: what it saw.
"""

import asyncio
import json
import sys

from mcp import Client
from mcp import types


def texts(blocks):
    return "\n".join(block.text for block in blocks if block.type == "text")


class Visit:
    """What is asked and reported while one call is under way."""

    def __init__(self):
        self.asked, self.progress = [], []

    async def elicit(self, context, params):
        self.asked.append("elicitation/create")
        schema = params.requested_schema
        content = {name: "Ada" for name in schema.get("required", [])}
        return types.ElicitResult(action="accept", content=content)

    async def sample(self, context, params):
        self.asked.append("sampling/createMessage")
        text = types.TextContent(type="text", text="A model would say so.")
        return types.CreateMessageResult(role="assistant", content=text, model="script", stop_reason="endTurn")

    async def note(self, progress, total, message):
        self.progress.append(progress)


async def call(client, visit, tool):
    visit.asked.clear()
    visit.progress.clear()
    result = await client.call_tool(tool["name"], tool["arguments"], progress_callback=visit.note)
    return {"text": texts(result.content), "asked": list(visit.asked), "progress": list(visit.progress)}


async def go(mode, stop):
    visit = Visit()
    client = Client(
        stop["url"],
        mode=mode,
        elicitation_callback=visit.elicit,
        sampling_callback=visit.sample,
        read_timeout_seconds=30,
    )
    async with client:
        seen = {"version": client.protocol_version}
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        seen["calls"] = [await call(client, visit, tool) for tool in stop["calls"]]
        if stop.get("resource"):
            listed = (await client.list_resources()).resources
            seen["resources"] = [str(resource.uri) for resource in listed]
            read = await client.read_resource(stop["resource"])
            seen["read"] = "\n".join(content.text for content in read.contents)
        if stop.get("prompt"):
            seen["prompts"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
            got = await client.get_prompt(stop["prompt"])
            seen["got"] = texts(message.content for message in got.messages)
        return seen


async def main():
    mode, stops = sys.argv[1], json.loads(sys.argv[2])
    for stop in stops:
        print(json.dumps(await go(mode, stop)), flush=True)


asyncio.run(main())
