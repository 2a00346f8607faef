# A small legacy MCP server with one resource. The first process never answers `resources/read`, later ones do.
echo start >> starts

answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }

while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*)
      answer "$id" '{"protocolVersion":"2025-11-25","capabilities":{"resources":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"resources/list"'*)
      answer "$id" '{"resources":[{"uri":"note://one","name":"one"}]}' ;;
    *'"resources/templates/list"'*)
      answer "$id" '{"resourceTemplates":[]}' ;;
    *'"resources/read"'*)
      echo read >> reads
      [ "$(wc -l < reads)" -gt 1 ] && answer "$id" '{"contents":[{"uri":"note://one","text":"hello"}]}' ;;
    *'"id"'*)
      printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id" ;;
  esac
done
