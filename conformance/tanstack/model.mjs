// A model that says what it is told to, through TanStack AI's adapter interface: it looks something
// up with a tool and then answers word by word. Its ids are the same in each execution; chat makes up
// one for a turn that has no message, so that each turn has one.
import { toolDefinition } from "@tanstack/ai";

export const opening = "Let me see. ";
export const answer = ["The ", "answer ", "is ", "42."];

export const lookup = toolDefinition({
  name: "lookup",
  description: "Looks a thing up.",
  inputSchema: { type: "object", properties: { thing: { type: "string" } } },
}).server(async () => ({ value: 42 }));

// scripted returns the adapter; before each word of the answer it waits for permit().
export function scripted(permit) {
  return {
    kind: "text",
    name: "scripted",
    model: "script",
    "~types": {},
    async *chatStream({ messages, runId, threadId }) {
      const now = () => ({ timestamp: Date.now() });
      yield { type: "RUN_STARTED", runId, threadId, ...now() };
      if (messages.at(-1).role !== "tool") {
        const messageId = `${runId}-opening`;
        yield { type: "TEXT_MESSAGE_START", messageId, role: "assistant", ...now() };
        yield { type: "TEXT_MESSAGE_CONTENT", messageId, delta: opening, ...now() };
        yield { type: "TEXT_MESSAGE_END", messageId, ...now() };
        const call = { toolCallId: `${runId}-call`, toolCallName: "lookup", toolName: "lookup" };
        yield { type: "TOOL_CALL_START", ...call, ...now() };
        yield { type: "TOOL_CALL_ARGS", toolCallId: call.toolCallId, delta: `{"thing":"it"}`, ...now() };
        yield { type: "TOOL_CALL_END", ...call, input: { thing: "it" }, ...now() };
        yield { type: "RUN_FINISHED", runId, threadId, finishReason: "tool_calls", ...now() };
        return;
      }
      const messageId = `${runId}-answer`;
      yield { type: "TEXT_MESSAGE_START", messageId, role: "assistant", ...now() };
      for (const delta of answer) {
        await permit();
        yield { type: "TEXT_MESSAGE_CONTENT", messageId, delta, ...now() };
      }
      yield { type: "TEXT_MESSAGE_END", messageId, ...now() };
      yield { type: "RUN_FINISHED", runId, threadId, finishReason: "stop", ...now() };
    },
  };
}
