// Spans of the TypeScript ends, exported in binary form. The SDK makes none by itself.
import { context, propagation, SpanKind, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { resourceFromAttributes } from "@opentelemetry/resources";

export function tracing(service) {
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ "service.name": service }),
    spanProcessors: [new SimpleSpanProcessor(new OTLPTraceExporter())],
  });
  provider.register();
  const tracer = trace.getTracer("check");
  /** Runs `act` in a span of this kind below what `carrier` names. */
  const span = (name, kind, carrier, act) => {
    const parent = propagation.extract(context.active(), carrier ?? {});
    return tracer.startActiveSpan(name, { kind: SpanKind[kind] }, parent, async (one) => {
      try { return await act(); } finally { one.end(); }
    });
  };
  /** What `_meta` has to carry. */
  const carrier = () => { const meta = {}; propagation.inject(context.active(), meta); return meta; };
  return { span, carrier, end: () => provider.shutdown() };
}
