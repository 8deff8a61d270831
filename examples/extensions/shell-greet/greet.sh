#!/bin/sh
# A greeting in POSIX shell: jq takes frames apart and puts them together.
#
#   /greet [name]   says hello

emit() { jq -cn "$1"; }

emit '{type: "hello", name: "shell-greet", version: "1.0.0", capabilities: ["commands"]}'

while IFS= read -r frame; do
    answer() { printf '%s\n' "$frame" | jq -c "$1"; }

    case $(printf '%s\n' "$frame" | jq -r .type) in
    hello_ack)
        emit '{type: "register_command", name: "greet", description: "say hello"}'
        emit '{type: "ready"}'
        ;;
    command_invoked)
        # Everything the user typed stays inside jq: the shell never sees it as code.
        answer '{type: "command_response", id, action: "display",
                 display: "Hello, \(if .args == "" then "you" else .args end)!"}'
        ;;
    shutdown)
        emit '{type: "shutdown_ack"}'
        exit
        ;;
    esac
done
