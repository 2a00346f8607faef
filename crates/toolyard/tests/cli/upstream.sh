# A small legacy MCP server, on stdio. It notes the process ids of itself and of a process that it
# starts, so that a test can see whether they are gone. The tool `wait` answers after a second.
echo $$ > server.pid
sleep 600 &
echo $! > helper.pid

answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }

while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*)
      answer "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*)
      answer "$id" '{"tools":[{"name":"wait","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*)
      echo called > called
      sleep 1
      answer "$id" '{"content":[{"type":"text","text":"waited"}]}' ;;
    *'"id"'*)
      printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id" ;;
  esac
done
