"""Operates the notes app through the gateway, as an agent would: inspect, click, type, wait, look.

Usage: drive.py TOOLYARD NOTES_APP PICTURES REPEATS EXPECTED

EXPECTED is the picture of the app with "Buy milk" typed into its field.
Uses the official Python SDK as the client. Prints the time that each tool took and fails at the first wrong answer.
"""

import asyncio
import base64
import os
import statistics
import struct
import subprocess
import sys
import time
import zlib

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

TOOLYARD, NOTES_APP, PICTURES, REPEATS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
EXPECTED = sys.argv[5]
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


def pixels(data):
    """The size and the RGBA bytes of a PNG with eight bits per channel."""
    size, compressed, at = None, b"", 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
            assert body[8:10] == b"\x08\x06", "eight bits per channel, with alpha"
        elif kind == b"IDAT":
            compressed += body
        at += length + 12
    return size, unfiltered(zlib.decompress(compressed), size[0] * 4)


def unfiltered(lines, width):
    """Reverses the filters of the lines of a PNG."""
    image, above = bytearray(), bytearray(width)
    for start in range(0, len(lines), width + 1):
        kind, line = lines[start], bytearray(lines[start + 1 : start + 1 + width])
        for at in range(width):
            left, upper_left = (line[at - 4], above[at - 4]) if at >= 4 else (0, 0)
            line[at] = (line[at] + predicted(kind, left, above[at], upper_left)) & 255
        image += line
        above = line
    return image


def predicted(kind, left, up, upper_left):
    if kind == 4:
        estimate = left + up - upper_left
        return min((left, up, upper_left), key=lambda value: abs(estimate - value))
    return (0, left, up, (left + up) // 2)[kind]


def assert_looks_like(data, expected):
    """At most one pixel in a thousand may differ, by more than two levels of a channel."""
    size, image = pixels(data)
    with open(expected, "rb") as file:
        expected_size, expected_image = pixels(file.read())
    assert size == expected_size, (size, expected_size)
    count = len(image) // 4
    different = sum(
        any(abs(a - b) > 2 for a, b in zip(image[at : at + 4], expected_image[at : at + 4]))
        for at in range(0, len(image), 4)
    )
    print(f"{different} of {count} pixels differ from {os.path.basename(expected)}")
    assert different * 1000 <= count


async def notice_after_click(agent):
    """How long after the click that causes it a waiting agent learns of the change, in seconds."""
    await agent.get("SetValue", name="Title", value="Awaited")
    waiting = asyncio.create_task(agent.get("WaitForElement", name="Remove Awaited", timeout=10000))
    # Tasks start in the order of their creation, so the wait is sent before the click.
    await asyncio.create_task(agent.get("ClickElement", name="Add"))
    clicked = time.monotonic()
    assert (await waiting)["found"]
    return time.monotonic() - clicked


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
            await agent.get("SetValue", name="Title", value="Buy milk")
            assert_looks_like(await agent.picture("typed.png"), EXPECTED)
            await agent.get("SetValue", name="Title", value="")
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

            learned = await notice_after_click(agent)
            print(f"a waiting agent learned of a change {max(learned, 0) * 1e3:.0f} ms after the click was answered")

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
