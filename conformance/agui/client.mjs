// The published AG-UI client as a function: events in, what it holds after each of them out.
import { defaultApplyEvents, enforceEvents, HttpAgent, transformChunks, verifyEvents } from "@ag-ui/client";
import { from, Subject } from "rxjs";

process.env.SUPPRESS_TRANSFORMATION_WARNINGS = "true";
console.warn = () => {}; // the reducer's warnings about what it ignores

const tick = () => new Promise((resolve) => setImmediate(resolve));

// start subscribes the client to a new stream; see prefixes and whole. seed is what it holds before.
function start({ verify = false, enforce = true, seed = { messages: [], state: {} } } = {}) {
  const agent = { ...structuredClone(seed), pendingInterrupts: [] };
  const input = { threadId: "t", runId: "r", state: agent.state, messages: [], tools: [], context: [] };
  const source = new Subject();
  let stream = source.asObservable();
  if (enforce) stream = enforceEvents()(stream);
  stream = transformChunks()(stream);
  if (verify) stream = verifyEvents()(stream);
  const held = { messages: agent.messages, state: agent.state, error: null };
  const done = new Promise((resolve) => {
    defaultApplyEvents(input, stream, agent, []).subscribe({
      next: (m) => {
        if (m.messages !== undefined) held.messages = m.messages;
        if (m.state !== undefined) held.state = m.state;
      },
      error: (e) => {
        held.error = String(e?.message ?? e);
        resolve();
      },
      complete: resolve,
    });
  });
  return { source, held, done };
}

const show = ({ messages, state }) => JSON.stringify({ messages, state });

// prefixes feeds events one at a time, as a network would, and returns
// {rows: [{messages, state} as JSON after each event], error}; rows end before the event at which
// the client gave up.
export async function prefixes(events, options) {
  const { source, held } = start(options);
  const rows = [];
  for (const e of structuredClone(events)) {
    source.next(e);
    await tick();
    if (held.error !== null) break;
    rows.push(show(held));
  }
  return { rows, error: held.error };
}

// whole feeds all events at once and returns {row, error}: what the client holds at the end.
export async function whole(events, options) {
  const { source, held, done } = start(options);
  for (const e of structuredClone(events)) source.next(e);
  source.complete();
  await done;
  return { row: show(held), error: held.error };
}

// connect is the client's own connectAgent, whose transport every application supplies itself: it
// hands over events. It returns the agent.
export async function connect(events, initialMessages = []) {
  class Connecting extends HttpAgent {
    connect() {
      return from(structuredClone(events));
    }
  }
  const agent = new Connecting({ url: "http://unused", threadId: "t", initialMessages });
  await agent.connectAgent();
  return agent;
}
