# A small legacy MCP server, on stdio. It notes each of its starts. The tool `say` answers at once,
# `hang` never does.
echo $$ > server.pid
echo start >> starts

answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }

while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*)
      answer "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*)
      answer "$id" '{"tools":[{"name":"say","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}}]}' ;;
    *'"name":"hang"'*)
      echo called > called ;;
    *'"tools/call"'*)
      answer "$id" '{"content":[{"type":"text","text":"hello"}]}' ;;
    *'"logging/setLevel"'*)
      answer "$id" '{}' ;;
    *'"id"'*)
      printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id" ;;
  esac
done
