"""Operates the notes app through the gateway, as an agent would: inspect, click, type, wait, look.

Usage: drive.py TOOLYARD NOTES_APP PICTURES REPEATS

Uses the official Python SDK as the client. Prints the time that each tool took and fails at the first wrong answer.
"""

import asyncio
import base64
import os
import statistics
import subprocess
import sys
import time

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

TOOLYARD, NOTES_APP, PICTURES, REPEATS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
times = {}


class Agent:
    def __init__(self, session):
        self.session = session

    async def call(self, tool, **arguments):
        started = time.monotonic()
        result = await self.session.call_tool(f"Notes__{tool}", arguments)
        times.setdefault(tool, []).append(time.monotonic() - started)
        return result.model_dump(by_alias=True, mode="json")

    async def get(self, tool, **arguments):
        result = await self.call(tool, **arguments)
        assert not result.get("isError"), (tool, arguments, result)
        return result["structuredContent"]

    async def wait_for_app(self):
        """Waits until the gateway lists the tools of the app."""
        deadline = time.monotonic() + 60
        while True:
            names = [tool.name for tool in (await self.session.list_tools()).tools]
            if "Notes__ClickElement" in names:
                return
            assert time.monotonic() < deadline, f"the app is not there: {names}"
            await asyncio.sleep(0.1)

    async def picture(self, name, **arguments):
        result = await self.call("CaptureScreenshot", **arguments)
        image = result["content"][0]
        assert image["type"] == "image", result
        data = base64.b64decode(image["data"])
        if image["mimeType"] == "image/png":
            assert data.startswith(b"\x89PNG\r\n\x1a\n")
        else:
            assert image["mimeType"] == "image/jpeg" and data.startswith(b"\xff\xd8\xff")
        with open(os.path.join(PICTURES, name), "wb") as file:
            file.write(data)
        return data


def start_app():
    return subprocess.Popen([NOTES_APP], stdin=subprocess.DEVNULL)


async def add_a_note(agent, title):
    """From an empty field to a note in the list."""
    field = await agent.get("FindElement", name="Title", type="TextInput")
    bounds = field["bounds"]
    centre = {"x": bounds["x"] + bounds["width"] / 2, "y": bounds["y"] + bounds["height"] / 2}
    assert (await agent.get("ClickElement", **centre))["clicked"]
    assert (await agent.get("TypeText", text=title))["typed"]
    assert (await agent.get("ClickElement", name="Add"))["clicked"]
    assert (await agent.get("WaitForElement", name="Note added"))["found"]
    asserted = await agent.call("AssertElement", name=title)
    assert not asserted.get("isError"), asserted


async def main():
    environment = {name: os.environ[name] for name in os.environ if not name.startswith("MCP_")}
    server = StdioServerParameters(command=TOOLYARD, args=["stdio"], env=environment)
    app = start_app()
    try:
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            agent = Agent(session)
            await agent.wait_for_app()
            await agent.picture("empty.png")
            await add_a_note(agent, "Buy milk")
            await agent.picture("added.png")
            await agent.picture("added.jpg", format="jpeg", quality=80)
            gone = await agent.get("WaitForElement", name="Note added", visible=False, timeout=10000)
            assert gone["found"] and not gone["visible"], gone
            tree = await agent.get("GetElementTree")
            assert "Remove Buy milk" in str(tree), tree

            for number in range(REPEATS):
                await add_a_note(agent, f"Note {number}")
                await agent.get("GetElementTree")
                await agent.picture("repeated.png")
                assert (await agent.get("ClickElement", name=f"Remove Note {number}"))["clicked"]

            # The app dies and comes back; the agent is not reconfigured.
            app.kill()
            app.wait()
            app = start_app()
            deadline = time.monotonic() + 60
            while True:
                await agent.wait_for_app()
                found = await agent.call("FindElement", name="Remove Buy milk")
                if not found.get("isError"):
                    break
                assert time.monotonic() < deadline, found
                await asyncio.sleep(0.1)
            assert found["structuredContent"] == {"found": False}, "a fresh app has no notes"
            await add_a_note(agent, "Still here")
    finally:
        app.kill()
        app.wait()
    for tool, taken in sorted(times.items()):
        taken.sort()
        p95 = taken[min(len(taken) - 1, int(len(taken) * 0.95))]
        print(f"{tool:20} {len(taken):5} calls   p50 {statistics.median(taken) * 1e3:6.1f} ms   p95 {p95 * 1e3:6.1f} ms")


asyncio.run(main())
