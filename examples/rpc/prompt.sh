#!/bin/sh
# Sends one prompt to a zotd of its own, over pipes, and prints the answer as it comes. Needs jq.
#   ./prompt.sh "fix the test" [FLAGS OF ZOTD...]
# Exit code: 0 when the model answered, 1 when something went wrong; standard error says what.
set -eu
prompt=$1
shift

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkfifo "$dir/requests" "$dir/answers"
zotd rpc "$@" <"$dir/requests" >"$dir/answers" &
exec 3>"$dir/requests" 4<"$dir/answers"

ask() { # ask ID METHOD PARAMS
    jq -cn --argjson id "$1" --arg method "$2" --argjson params "$3" \
        '{jsonrpc: "2.0", $id, $method, $params}' >&3 || exit 1 # zotd has ended, and said why
}

result() { # The result in the next line, which must be an answer.
    IFS= read -r line <&4 || exit 1
    printf '%s\n' "$line" | jq -c 'if .error then "\(.error.message)\n" | halt_error(1) else .result end'
}

ask 1 initialize '{"protocol_version": 1, "client": {"name": "prompt.sh"}}'
result >"$dir/server"
ask 2 session/new "$(jq -cn --arg cwd "$PWD" '{$cwd}')"
made=$(result)

ask 3 turn/start "$(printf '%s\n' "$made" | jq -c --arg text "$prompt" '.session | {session_id, $text}')"
# From here on come the answer to turn/start and the events of the turn. `done` is the last of them.
code=0
jq -nj --unbuffered 'label $out | inputs |
    if .error then "\(.error.message)\n" | halt_error(1)
    elif .method == "text_delta" then .params.delta
    elif .method == "error" then "\(.params.message)\n" | halt_error(1)
    elif .method == "done" then "\n", (if .params.stop == "end_turn" then break $out else "" | halt_error(1) end)
    else empty end' <&4 || code=1

exec 3>&- # the end of its input ends zotd, too
wait
exit $code
