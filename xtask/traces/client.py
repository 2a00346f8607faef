"""A client on the Python SDK, which makes spans and passes them on by itself: `client.py URL TOOL`.

OTEL_EXPORTER_OTLP_ENDPOINT names the receiver of its spans.
"""

import asyncio
import sys

from mcp import Client
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider(resource=Resource.create({"service.name": "python-client"}))
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)


async def main(url, tool):
    async with Client(url, read_timeout_seconds=30) as client:
        with trace.get_tracer("check").start_as_current_span(f"ask for {tool}"):
            result = await client.call_tool(tool, {"text": "hello"})
        print(result.content[0].text, flush=True)


asyncio.run(main(*sys.argv[1:3]))
provider.shutdown()
