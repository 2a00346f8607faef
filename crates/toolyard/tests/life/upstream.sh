# A small legacy MCP server, on stdio, that misbehaves in the way its first argument names.
# Its tool is called `go`; `$calls` counts the calls.
how=$1
calls=0
half='{"jsonrpc":"2.0","id":'

answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
text() { answer "$1" '{"content":[{"type":"text","text":"'"$2"'"}]}'; }

# Processes that stay: one in the server's group, one without a parent in a session of its own,
# both deaf to TERM.
leave_behind() {
  sh -c 'trap "" TERM HUP; exec sleep 600' </dev/null >/dev/null 2>&1 &
  (setsid sh -c 'trap "" TERM HUP; exec sleep 600' </dev/null >/dev/null 2>&1 &)
}

flood() {
  i=0
  while [ $i -lt 20000 ]; do
    echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"flood"}}'
    echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
    i=$((i + 1))
  done
}

loud() {
  { head -c 1000000 /dev/zero | tr '\0' x; yes line | head -n 100000; } >&2
}

go() {
  calls=$((calls + 1))
  case $how in
    half) printf '%s%s,"resu' "$half" "$1"; exit 5 ;;
    closes) exec >&-; sleep 600 ;;
    dies) echo 'out of cheese' >&2; exit 6 ;;
    twice) text "$1" first; text "$1" second ;;
    late) [ $calls -gt 1 ] || sleep 2; text "$1" "$calls" ;;
    loud) loud; text "$1" hello ;;
    flood) flood; text "$1" dry ;;
    invalid) printf '%s%s,"error":{"code":-32602,"message":"no such argument"}}\n' "$half" "$1" ;;
    crashes) kill -9 $$ ;;
    *) text "$1" well ;;
  esac
}

case $how in
  exits) echo 'no such database' >&2; exit 4 ;;
  hangs) while read -r line; do :; done; sleep 600 ;;
  forks) leave_behind ;;
  held*) until [ -e release ]; do sleep 0.1; done ;;
esac

while read -r line; do
  id=${line#*\"id\":}
  id=${id%%[!0-9]*}
  case $line in
    *'"initialize"'*)
      answer "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) answer "$id" '{"tools":[{"name":"go","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) go "$id" ;;
    *'"id":'*) printf '%s%s,"error":{"code":-32601,"message":"no such method"}}\n' "$half" "$id" ;;
  esac
done
[ "$how" = stays ] && sleep 600
