"""Operates the notes app through the gateway, as an agent would: inspect, click, type, wait, look.

Usage: drive.py TOOLYARD NOTES_APP PICTURES REPEATS EXPECTED [--limits]

EXPECTED is the picture of the app with "Buy milk" typed into its field. With --limits it also operates a window with
10,000 elements, and fails if the tools are slow.
Uses the official Python SDK as the client. Prints the time that each tool took and fails at the first wrong answer.
"""

import asyncio
import base64
import json
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
LIMITS = "--limits" in sys.argv[6:]
# How late an agent that waits may learn of a change, in seconds.
NOTICE_WITHIN = 0.5
# How long the notice of the app stays, in seconds.
NOTICE = 1.5
# The largest p95, in seconds. A wait takes as long as what it waits for.
P95, P95_PICTURE = 0.1, 0.2
# How many elements a large window has, and how often it is looked at.
LARGE, LARGE_REPEATS = 10_000, 20
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


async def learned_after_click(agent, button, waited_for, visible):
    """How long after the click that causes it a waiting agent learns of the change, in seconds."""
    waiting = asyncio.create_task(agent.get("WaitForElement", name=waited_for, visible=visible, timeout=10000))
    # Tasks start in the order of their creation, so the wait is sent before the click.
    await asyncio.create_task(agent.get("ClickElement", name=button))
    clicked = time.monotonic()
    answer = await waiting
    assert answer["found"] and answer["visible"] == visible, answer
    return max(time.monotonic() - clicked, 0)


async def changes_are_noticed(agent):
    """What appears and what goes is noticed at once, also if it goes by itself."""
    await agent.get("SetValue", name="Title", value="Awaited")
    appeared = await learned_after_click(agent, "Add", "Remove Awaited", True)
    added = time.monotonic()
    gone = await agent.get("WaitForElement", name="Note added", visible=False, timeout=10000)
    assert gone["found"], gone
    # The notice was shown before the click was answered, so it must be gone this long after the answer.
    went = max(time.monotonic() - added - NOTICE, 0)
    disappeared = await learned_after_click(agent, "Remove Awaited", "Remove Awaited", False)
    for what, late in [("appeared", appeared), ("went by itself", went), ("was removed", disappeared)]:
        print(f"a waiting agent learned that an element {what} at most {late * 1e3:.0f} ms after it")
        assert late < NOTICE_WITHIN, f"that is more than {NOTICE_WITHIN * 1e3:.0f} ms"


def report():
    """Prints how long the tools took, and fails if that is too long and counts."""
    slow = []
    for tool, taken in sorted(times.items()):
        taken.sort()
        p95 = taken[min(len(taken) - 1, int(len(taken) * 0.95))]
        print(f"{tool:36} {len(taken):5} calls   p50 {statistics.median(taken) * 1e3:6.1f} ms   p95 {p95 * 1e3:6.1f} ms")
        limit = P95_PICTURE if tool.startswith("CaptureScreenshot") else P95
        if not tool.startswith("WaitForElement") and p95 >= limit:
            slow.append(f"{tool}: {p95 * 1e3:.0f} ms, and the limit is {limit * 1e3:.0f} ms")
    assert not (LIMITS and slow), f"the p95 is too large: {'; '.join(slow)}"


def start_app(archived=0):
    environment = os.environ | {"NOTES_APP_ARCHIVED": str(archived)}
    return subprocess.Popen([NOTES_APP], stdin=subprocess.DEVNULL, env=environment)


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


class Lines:
    """A client that only writes and reads lines: the work of the SDK on each element of a large tree does not count."""

    def __init__(self):
        self.number = 0
        self.process = subprocess.Popen(
            [TOOLYARD, "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=client_environment()
        )
        info = {"name": "drive", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})

    def ask(self, method, params):
        """The result of a request, and how long it took."""
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        started = time.monotonic()
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        while line := self.process.stdout.readline():
            taken = time.monotonic() - started
            answer = json.loads(line)
            if answer.get("id") == self.number:
                return answer["result"], taken
        raise AssertionError("the gateway closed the connection")

    def call(self, tool, **arguments):
        return self.ask("tools/call", {"name": f"Notes__{tool}", "arguments": arguments})

    def get(self, tool, **arguments):
        result, taken = self.call(tool, **arguments)
        assert not result.get("isError"), (tool, arguments, result)
        times.setdefault(f"{tool}, {LARGE:,} elements", []).append(taken)
        return result["structuredContent"] if "structuredContent" in result else result

    def wait_for_app(self):
        """Waits until the app has drawn its first frame."""
        deadline = time.monotonic() + 60
        while True:
            tools, _ = self.ask("tools/list", {})
            if any(tool["name"] == "Notes__FindElement" for tool in tools["tools"]):
                found, _ = self.call("FindElement", name="Archived note 0")
                if found.get("structuredContent", {}).get("found"):
                    return
            assert time.monotonic() < deadline, "the app is not there"
            time.sleep(0.1)


def large_window():
    """Looks at a window with many elements, and operates it."""
    app = start_app(LARGE)
    agent = Lines()
    try:
        agent.wait_for_app()
        for number in range(LARGE_REPEATS):
            tree = agent.get("GetElementTree")
            assert str(tree).count("'name': 'Archived note ") == LARGE and "isCut" not in tree
            last = agent.get("FindElement", name=f"Archived note {LARGE - 1}")
            assert last["found"] and last["properties"]["outOfView"] == "true", last
            name = f"Archived note {number % 5}"
            assert agent.get("ClickElement", name=name)["clicked"]
            field = agent.get("FindElement", name="Title", type="TextInput")
            assert field["properties"]["value"] == name, field
            agent.get("CaptureScreenshot")
    finally:
        agent.process.kill()
        app.kill()
        app.wait()


def client_environment():
    return {name: os.environ[name] for name in os.environ if not name.startswith("MCP_")}


async def main():
    server = StdioServerParameters(command=TOOLYARD, args=["stdio"], env=client_environment())
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

            await changes_are_noticed(agent)
            timed = {tool: list(taken) for tool, taken in times.items()}

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
    # The calls after the restart include waits for the app, so they do not count.
    times.clear()
    times.update(timed)


asyncio.run(main())
if LIMITS:
    large_window()
report()
