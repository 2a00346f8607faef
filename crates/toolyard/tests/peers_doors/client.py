"""A client whose config runs `toolyard stdio`: `client.py HOME COMMAND ARGS…`. One at a time in every mode, then
two at once; each lists and calls."""

import sys

import anyio
from mcp import Client, StdioServerParameters

home, command, *args = sys.argv[1:]
server = StdioServerParameters(command=command, args=args, env={"HOME": home, "XDG_RUNTIME_DIR": home})


async def use(client):
    tools = await client.list_tools()
    assert any(tool.name == "sh__say" for tool in tools.tools), tools
    answer = await client.call_tool("sh__say", {})
    return answer.content[0].text


async def main():
    for mode in ["legacy", "auto", "2026-07-28"]:
        async with Client(server, mode=mode) as client:
            print(mode, await use(client))
    async with Client(server, mode="legacy") as one, Client(server, mode="auto") as two:
        print("together", await use(one), await use(two))


anyio.run(main)
