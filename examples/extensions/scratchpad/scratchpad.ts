// A page that you and the model write on together, in TypeScript that runs from its source.
//
//   /scratch [line]   adds a line, or shows the page
//   /scratch-clear    begins a new page
//   scratchpad        the tool with which the model does the same

import { appendFileSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

type FromHost =
  | { type: "hello_ack"; data_dir: string }
  | { type: "command_invoked"; id: string; name: string; args: string }
  | { type: "tool_call"; id: string; name: string; args: { line?: unknown } }
  | { type: "shutdown" };

const send = (frame: { type: string; [field: string]: unknown }): void => {
  process.stdout.write(JSON.stringify(frame) + "\n");
};

let page = ""; // its path, known once the host says where files may be kept

const add = (line: string): void => appendFileSync(page, line + "\n");
const read = (): string => (existsSync(page) ? readFileSync(page, "utf8").trimEnd() : "The page is empty.");

function register(): void {
  send({ type: "register_command", name: "scratch", description: "add a line to the page, or show it" });
  send({ type: "register_command", name: "scratch-clear", description: "begin a new page" });
  send({
    type: "register_tool",
    name: "scratchpad",
    description: "Adds a line to the page shared with the user, if one is given; returns the whole page.",
    schema: { type: "object", properties: { line: { type: "string" } } },
  });
  send({ type: "ready" });
}

function command(name: string, args: string): string {
  if (name === "scratch-clear") {
    rmSync(page, { force: true });
    return "A new page.";
  }
  if (args) add(args);
  return read();
}

function tool(line: unknown): string {
  // The model's arguments may be anything, whatever the schema says.
  if (typeof line === "string" && line) add(line);
  return read();
}

send({ type: "hello", name: "scratchpad", version: "1.0.0", capabilities: ["commands", "tools"] });

for await (const text of createInterface({ input: process.stdin })) {
  const frame = JSON.parse(text) as FromHost;
  if (frame.type === "hello_ack") {
    page = join(frame.data_dir, "page.txt");
    register();
  } else if (frame.type === "command_invoked") {
    send({ type: "command_response", id: frame.id, action: "display", display: command(frame.name, frame.args) });
  } else if (frame.type === "tool_call") {
    send({ type: "tool_result", id: frame.id, content: [{ type: "text", text: tool(frame.args.line) }] });
  } else if (frame.type === "shutdown") {
    send({ type: "shutdown_ack" });
    break;
  }
}
