// A client on the TypeScript SDK. The mode (`legacy`, `auto` or a modern version) and the stops, a JSON list of
// where to go and what to ask there, come in the environment: the script itself is read from stdin, so that its
// imports are looked up in the working directory. Prints one JSON line for each stop: what it saw.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const text = (blocks) => blocks.filter((block) => block.type === "text").map((block) => block.text).join("\n");

// The default is not to negotiate, and that is what a client without the option does.
const negotiation = { legacy: {}, auto: { versionNegotiation: { mode: "auto" } } };

function connectable(mode) {
  const options = negotiation[mode] ?? { versionNegotiation: { mode: { pin: mode } } };
  const client = new Client(
    { name: "typescript-peer", version: "1" },
    { capabilities: { elicitation: {}, sampling: {} }, ...options },
  );
  const asked = [];
  client.setRequestHandler("elicitation/create", async (request) => {
    asked.push("elicitation/create");
    const required = request.params.requestedSchema.required ?? [];
    return { action: "accept", content: Object.fromEntries(required.map((name) => [name, "Ada"])) };
  });
  client.setRequestHandler("sampling/createMessage", async () => {
    asked.push("sampling/createMessage");
    const content = { type: "text", text: "A model would say so." };
    return { role: "assistant", content, model: "script", stopReason: "endTurn" };
  });
  return { client, asked };
}

async function call(client, asked, tool) {
  asked.length = 0;
  const progress = [];
  const onprogress = (note) => progress.push(note.progress);
  const result = await client.callTool({ name: tool.name, arguments: tool.arguments }, { onprogress, timeout: 30_000 });
  return { text: text(result.content), asked: [...asked], progress };
}

async function go(mode, stop) {
  const { client, asked } = connectable(mode);
  await client.connect(new StreamableHTTPClientTransport(new URL(stop.url)));
  const seen = { version: client.getNegotiatedProtocolVersion() };
  seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
  seen.calls = [];
  for (const tool of stop.calls) {
    seen.calls.push(await call(client, asked, tool));
  }
  if (stop.resource) {
    seen.resources = (await client.listResources()).resources.map((resource) => resource.uri);
    seen.read = (await client.readResource({ uri: stop.resource })).contents.map((content) => content.text).join("\n");
  }
  if (stop.prompt) {
    seen.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
    seen.got = text((await client.getPrompt({ name: stop.prompt })).messages.map((message) => message.content));
  }
  await client.close();
  return seen;
}

for (const stop of JSON.parse(process.env.PEER_STOPS)) {
  console.log(JSON.stringify(await go(process.env.PEER_MODE, stop)));
}
