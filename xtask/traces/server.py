"""A server on the Python SDK over stdio, which takes its caller's span from `_meta` by itself.

OTEL_EXPORTER_OTLP_ENDPOINT names the receiver of its spans.
"""

from mcp.server.mcpserver import MCPServer
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider(resource=Resource.create({"service.name": "python-server"}))
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

server = MCPServer("python-end", version="1")


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Answers with its text."""
    return f"Python: {text}"


server.run("stdio")
