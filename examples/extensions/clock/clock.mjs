#!/usr/bin/env node
// A clock in plain Node: no SDK, no package.json, nothing to install.
//
//   /clock [zone]   the time there, such as /clock Asia/Tokyo; here without a zone
//   /clock-rhyme    asks the model for a rhyme about the time
//
// It needs nothing from the host to register, so it does not wait for hello_ack, and it never says "ready":
// the host takes a moment of silence for that.

import { createInterface } from "node:readline";

const send = (frame) => process.stdout.write(JSON.stringify(frame) + "\n");

const time = (zone) =>
  new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", timeZone: zone || undefined }).format();

const commands = {
  clock(zone) {
    try {
      return { action: "display", display: `It is ${time(zone)}${zone && ` in ${zone}`}.` };
    } catch {
      return { error: `no time zone is called ${zone}; try Europe/Berlin` };
    }
  },
  "clock-rhyme": () => ({ action: "prompt", prompt: `It is ${time()}. Make a rhyme of two lines about it.` }),
};

send({ type: "hello", name: "clock", version: "1.0.0", capabilities: ["commands"] });
send({ type: "register_command", name: "clock", description: "what time it is, here or in a zone" });
send({ type: "register_command", name: "clock-rhyme", description: "a rhyme about the time" });

for await (const line of createInterface({ input: process.stdin })) {
  const frame = JSON.parse(line);
  if (frame.type === "command_invoked") {
    send({ type: "command_response", id: frame.id, ...commands[frame.name](frame.args) });
  } else if (frame.type === "shutdown") {
    send({ type: "shutdown_ack" });
    break;
  }
}
