# A server on stdio that defines things as no client takes them, and beside them a tool, a prompt and a resource
# that are as they should be. Its lists are in the folder that is given.
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
list() { answer "$1" "{\"$2\":$(tr -d '\n' < "$folder/$3.json")}"; }

folder=$1
text='"type":"text","text":"fine"'
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*)
      answer "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"strange","version":"1"}}' ;;
    *'"tools/list"'*) list "$id" tools tools ;;
    *'"prompts/list"'*) list "$id" prompts prompts ;;
    *'"resources/list"'*) list "$id" resources resources ;;
    *'"resources/templates/list"'*) list "$id" resourceTemplates templates ;;
    *'"tools/call"'*) answer "$id" "{\"content\":[{$text}]}" ;;
    *'"prompts/get"'*) answer "$id" "{\"messages\":[{\"role\":\"user\",\"content\":{$text}}]}" ;;
    *'"resources/read"'*) answer "$id" '{"contents":[{"uri":"odd:fine","text":"fine"}]}' ;;
    *'"id"'*)
      printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id" ;;
  esac
done
