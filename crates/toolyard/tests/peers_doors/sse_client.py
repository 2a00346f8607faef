"""A client of HTTP+SSE: `sse_client.py URL`. Lists and calls."""

import sys

import anyio
from mcp import ClientSession
from mcp.client.sse import sse_client


async def main():
    async with sse_client(sys.argv[1]) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = await session.list_tools()
            assert any(tool.name == "sh__say" for tool in tools.tools), tools
            answer = await session.call_tool("sh__say", {})
            print(answer.content[0].text)


anyio.run(main)
