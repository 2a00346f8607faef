"""A client of the hub: `hub_client.py HOME URL COMMAND ARGS…`. In every mode that can be, over HTTP and on stdio, it
lists, connects to the instance `clock`, is notified that the list has changed, lists again, calls, and disconnects."""

import sys

import anyio
from mcp import Client, StdioServerParameters

home, url, command, *args = sys.argv[1:]
stdio = StdioServerParameters(command=command, args=args, env={"HOME": home, "XDG_RUNTIME_DIR": home})
OWN = ["instances_call", "instances_connect", "instances_disconnect", "instances_health", "instances_list"]


async def names(client):
    return sorted(tool.name for tool in (await client.list_tools()).tools)


async def use(target, mode):
    changed = anyio.Event()

    async def on_message(message):
        if "list_changed" in str(getattr(getattr(message, "root", message), "method", "")):
            changed.set()

    async with Client(target, mode=mode, message_handler=on_message) as client:
        assert await names(client) == OWN, await names(client)
        refused = await client.call_tool("echo", {"text": "hi"})
        assert refused.is_error and "not connected to an instance" in refused.content[0].text, refused
        with anyio.fail_after(20):
            while (await client.call_tool("instances_connect", {"instance_id": "clock"})).is_error:
                await anyio.sleep(0.05)
            await changed.wait()
        assert "echo" in await names(client)
        answer = await client.call_tool("echo", {"text": "hi"})
        await client.call_tool("instances_disconnect", {})
        assert await names(client) == OWN
        return answer.content[0].text


async def main():
    for door, target in [("http", url), ("stdio", stdio)]:
        for mode in ["legacy", "auto"]:
            print(door, mode, await use(target, mode))


anyio.run(main)
