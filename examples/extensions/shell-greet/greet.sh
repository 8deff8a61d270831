#!/bin/sh
# A greeting in POSIX shell: jq takes frames apart and puts them together.
#
#   /greet [name]   says hello

emit() { jq -cn "$1"; }
frame() { printf '%s\n' "$line" | jq -cr "$1"; }

emit '{type: "hello", name: "shell-greet", version: "1.0.0", capabilities: ["commands"]}'

while IFS= read -r line; do
    case $(frame .type) in
    hello_ack)
        emit '{type: "register_command", name: "greet", description: "say hello"}'
        emit '{type: "ready"}'
        ;;
    command_invoked)
        # Everything the user typed stays inside jq: the shell never sees it as code.
        frame '{type: "command_response", id, action: "display",
                display: "Hello, \(if .args == "" then "you" else .args end)!"}'
        ;;
    shutdown)
        emit '{type: "shutdown_ack"}'
        exit
        ;;
    esac
done
