// Random runs over few ids, so that things collide: reopened ids, results without calls, chunks
// between other events, snapshots of what is streaming. Deterministic: seed in, run out.
function random(seed) { // mulberry32
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export function generate(seed, length) {
  const rnd = random(seed);
  const pick = (...a) => a[Math.floor(rnd() * a.length)];
  const maybe = (name, ...a) => (rnd() < 0.3 ? { [name]: pick(...a) } : {});
  const mid = () => pick("a", "b", "c", "é", "c1");
  const cid = () => pick("c1", "c2", "c3", "a");
  const sub = () => maybe("subagentRunId", "s1", "s2");
  const delta = () => pick("", "x", "y\n", "\ud83d", "\ude00", '"q"', "\\", "中");
  const meta = () => maybe("metadata", { k: 1 }, { k: null, l: [1] }, { l: { m: 2 } }, {});
  const part = () => pick({ type: "text", text: "t", extra: 1 }, { type: "hologram" },
    { type: "image", source: { type: "url", value: "u", zoom: 2 } }, { type: "audio", source: { type: "tape" } });
  const content = () => pick("r", "", [part(), part()], []);
  const value = () => pick(0, 1, -2.5, "s", null, true, [], {}, [1, [2]], { a: { b: 1 } }, { x: [1, 2, 3] });
  const pointer = () => pick("", "/a", "/x", "/a/b", "/x/0", "/x/-", "/x/1", "/x/01", "/x/7", "/a/b/c", "/~0", "/~1/y", "/x/", "/");
  const patch = () => Array.from({ length: pick(1, 1, 2, 3) }, () => pick(
    () => ({ op: "add", path: pointer(), value: value() }), () => ({ op: "add", path: pointer(), value: value() }),
    () => ({ op: "replace", path: pointer(), value: value() }), () => ({ op: "remove", path: pointer() }),
    // Not to the root, which from nowhere makes the client's document undefined, nor the root into
    // itself, which makes it a circle: neither is JSON.
    () => ({ op: "copy", from: pointer(), path: pointer() || "/x" }), () => ({ op: "move", from: pointer() || "/a", path: pointer() || "/x" }),
    () => ({ op: "test", path: pointer(), value: value() }), () => ({ op: "wish", path: pointer() }))());
  const call = () => ({ id: cid(), type: "function", function: { name: pick("f", "g"), arguments: pick("", "{}") }, ...meta() });
  const message = () => pick(
    () => ({ id: mid(), role: "user", content: content(), color: "red", ...meta() }),
    () => ({ id: mid(), role: pick("system", "developer"), content: "s", ...maybe("name", "n") }),
    () => ({ id: mid(), role: "assistant", ...maybe("content", "hi"), ...maybe("toolCalls", [call()], [call(), call()], []), ...sub() }),
    () => ({ id: mid(), role: "tool", toolCallId: cid(), content: content(), ...maybe("error", "e") }),
    () => ({ id: mid(), role: "reasoning", content: "why", ...maybe("encryptedValue", "z") }),
    () => ({ id: mid(), role: "activity", activityType: pick("plan", "map"), content: { x: [1] } }),
    () => ({ id: mid(), role: "narrator", content: "?" }))();
  const messages = () => Array.from({ length: pick(0, 1, 2, 4) }, message);
  const authority = () => maybe("metadata", { "@ag-ui/client": { authoritativeActivityTypes: pick(null, ["plan"], [], "x") } }, { "@ag-ui/client": pick({}, 1) });
  const events = [
    () => ({ type: "TEXT_MESSAGE_START", messageId: mid(), ...maybe("role", "user", "system"), ...maybe("name", "n"), ...sub(), ...meta() }),
    () => ({ type: "TEXT_MESSAGE_CONTENT", messageId: mid(), delta: delta(), ...meta(), unknown: 1 }),
    () => ({ type: "TEXT_MESSAGE_END", messageId: mid(), ...meta() }),
    () => ({ type: "TEXT_MESSAGE_CHUNK", messageId: mid(), ...maybe("delta", delta()), ...sub(), ...meta() }),
    () => ({ type: "TEXT_MESSAGE_CHUNK", messageId: "chunky", ...maybe("delta", delta()), ...maybe("rawEvent", {}) }),
    () => ({ type: "TOOL_CALL_START", toolCallId: cid(), toolCallName: pick("f", "g"), ...maybe("parentMessageId", mid(), ""), ...sub(), ...meta() }),
    () => ({ type: "TOOL_CALL_ARGS", toolCallId: cid(), delta: delta(), ...meta() }),
    () => ({ type: "TOOL_CALL_END", toolCallId: cid(), ...meta() }),
    () => ({ type: "TOOL_CALL_CHUNK", toolCallId: cid(), toolCallName: "f", ...maybe("delta", delta()), ...meta() }),
    () => ({ type: "TOOL_CALL_RESULT", messageId: pick("r1", "r2", mid()), toolCallId: cid(), content: content(), ...sub(), ...meta() }),
    () => ({ type: "REASONING_MESSAGE_START", messageId: mid(), role: "reasoning", ...sub() }),
    () => ({ type: "REASONING_MESSAGE_CONTENT", messageId: mid(), delta: delta() }),
    () => ({ type: "REASONING_MESSAGE_END", messageId: mid(), ...meta() }),
    () => ({ type: "REASONING_MESSAGE_CHUNK", messageId: pick("why", mid()), ...maybe("delta", delta()) }),
    () => ({ type: "REASONING_ENCRYPTED_VALUE", subtype: pick("message", "tool-call"), entityId: pick(mid(), cid()), encryptedValue: pick("e1", "e2") }),
    () => ({ type: "ACTIVITY_SNAPSHOT", messageId: pick("act", mid()), activityType: pick("plan", "map"), content: { x: [1, 2], a: {} }, ...maybe("replace", true, false), ...sub(), ...meta() }),
    () => ({ type: "ACTIVITY_DELTA", messageId: pick("act", mid()), activityType: pick("plan", "map"), patch: patch(), ...meta() }),
    () => ({ type: "STATE_SNAPSHOT", snapshot: value() }),
    () => ({ type: "STATE_DELTA", delta: patch() }),
    () => ({ type: "STATE_DELTA", delta: patch() }),
    () => ({ type: "RAW", event: 1 }),
    () => ({ type: "CUSTOM", name: "n", value: null, ...sub() }),
    () => ({ type: "STEP_STARTED", stepName: "s" }),
    () => ({ type: "SUBAGENT_STARTED", subagentRunId: pick("s1", "s2"), name: "n" }),
    () => ({ type: "SUBAGENT_FINISHED", subagentRunId: pick("s1", "s2") }),
    () => ({ type: "NOVELTY", messageId: mid() }),
    () => ({ type: "THINKING_TEXT_MESSAGE_CONTENT", delta: "hm" }),
  ];
  // A bare chunk is legal only where its stream is open; the client gives up otherwise. Send
  // them mostly right after one that opens a stream.
  const bare = { TEXT_MESSAGE_CHUNK: 1, TOOL_CALL_CHUNK: 1, REASONING_MESSAGE_CHUNK: 1 };
  const run = [{ type: "RUN_STARTED", threadId: "t", runId: "r", input: { threadId: "t", runId: "r", messages: messages() } }];
  while (run.length < length) {
    const last = run.at(-1);
    if (bare[last.type] && rnd() < 0.5) {
      run.push({ type: last.type, delta: delta(), ...meta(), ...(last.subagentRunId ? { subagentRunId: last.subagentRunId } : {}) });
    } else if (rnd() < 0.05) {
      run.push({ type: "MESSAGES_SNAPSHOT", messages: messages(), ...authority() });
    } else if (rnd() < 0.03) {
      run.push({ type: "RUN_ERROR", message: "m" }, { type: "RUN_STARTED", threadId: "t", runId: "r2", input: { threadId: "t", runId: "r2", messages: messages() } });
    } else {
      run.push(pick(...events)());
    }
  }
  return run;
}

// generateLegal makes a run that the verifier accepts: what it opens it closes, chunk streams
// come with and without ids, subagents and steps nest.
export function generateLegal(seed) {
  const rnd = random(seed);
  const pick = (...a) => a[Math.floor(rnd() * a.length)];
  let n = 0;
  const run = [{ type: "RUN_STARTED", threadId: "t", runId: "r" }];
  const open = []; // each: {next(): event or null when closed}
  const delta = () => pick("a", "\ud83d", "\ude00", "", "b c");
  const stream = (start, content, end) => {
    let left = pick(0, 1, 3);
    run.push(start);
    open.push(() => (left-- > 0 ? { ...content, delta: delta() } : end));
  };
  const openers = [
    () => { const messageId = `m${n++}`; stream({ type: "TEXT_MESSAGE_START", messageId, role: pick("assistant", "user") }, { type: "TEXT_MESSAGE_CONTENT", messageId }, { type: "TEXT_MESSAGE_END", messageId, metadata: { n } }); },
    () => { const toolCallId = `c${n++}`; stream({ type: "TOOL_CALL_START", toolCallId, toolCallName: "f", metadata: { at: n }, ...(rnd() < 0.5 ? { parentMessageId: `m${pick(0, 1, n)}` } : {}) }, { type: "TOOL_CALL_ARGS", toolCallId }, { type: "TOOL_CALL_END", toolCallId }); },
    () => { const messageId = `m${n++}`; stream({ type: "REASONING_MESSAGE_START", messageId, role: "reasoning" }, { type: "REASONING_MESSAGE_CONTENT", messageId }, { type: "REASONING_MESSAGE_END", messageId }); },
    () => { const messageId = `span${n++}`; run.push({ type: "REASONING_START", messageId }); open.push(() => ({ type: "REASONING_END", messageId })); },
    () => { const stepName = `s${n++}`; run.push({ type: "STEP_STARTED", stepName }); open.push(() => ({ type: "STEP_FINISHED", stepName })); },
    () => {
      const subagentRunId = `sub${n++}`;
      run.push({ type: "SUBAGENT_STARTED", subagentRunId, name: "n", ...(n > 3 && subs.length ? { parentSubagentRunId: pick(...subs) } : {}) });
      subs.push(subagentRunId);
      const messageId = `m${n++}`;
      stream({ type: "TEXT_MESSAGE_START", messageId, subagentRunId }, { type: "TEXT_MESSAGE_CONTENT", messageId, subagentRunId }, { type: "TEXT_MESSAGE_END", messageId, subagentRunId });
      open.push(() => ({ type: "SUBAGENT_FINISHED", subagentRunId }));
    },
    () => {
      const sub = rnd() < 0.3 && subs.length ? { subagentRunId: pick(...subs) } : {};
      const [first, rest] = pick(
        [{ type: "TEXT_MESSAGE_CHUNK", messageId: `k${n++}`, name: "n" }, { type: "TEXT_MESSAGE_CHUNK" }],
        [{ type: "TOOL_CALL_CHUNK", toolCallId: `k${n++}`, toolCallName: "g", parentMessageId: "m0" }, { type: "TOOL_CALL_CHUNK" }],
        [{ type: "REASONING_MESSAGE_CHUNK", messageId: `k${n++}` }, { type: "REASONING_MESSAGE_CHUNK" }]);
      if (sub.subagentRunId && first.parentMessageId) delete first.parentMessageId;
      run.push({ ...first, ...sub, delta: delta() });
      for (let i = pick(0, 1, 3); i > 0; i--) {
        if (rnd() < 0.3) run.push({ type: "RAW", event: i });
        run.push({ ...rest, ...sub, delta: delta() });
      }
    },
    () => run.push({ type: "TOOL_CALL_RESULT", messageId: `m${n++}`, toolCallId: `c${pick(0, 1, n - 1)}`, content: "r" }),
    () => run.push({ type: "STATE_DELTA", delta: [{ op: "add", path: `/k${n++}`, value: n }] }),
    () => run.push({ type: "ACTIVITY_SNAPSHOT", messageId: "act", activityType: "plan", content: { i: n } }),
    () => run.push({ type: "ACTIVITY_DELTA", messageId: "act", activityType: "plan", patch: [{ op: "add", path: "/j", value: n }] }),
  ];
  const subs = [];
  for (let i = 0; i < 30; i++) {
    if (open.length && rnd() < 0.6) {
      const at = Math.floor(rnd() * open.length);
      const e = open[at]();
      run.push(e);
      if (/_END|FINISHED/.test(e.type)) open.splice(at, 1);
    } else pick(...openers)();
  }
  while (open.length) {
    const e = open[0]();
    run.push(e);
    if (/_END|FINISHED/.test(e.type)) open.shift();
  }
  run.push({ type: "RUN_FINISHED", threadId: "t", runId: "r" });
  return run;
}
