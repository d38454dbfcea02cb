// A reader as strict as that of @tanstack/ai-durable-stream, which is not on npm: server-sent events
// named data and control alone, a control after each data, a window that makes progress, and records
// whose numbers only grow.

// frames yields the named events of a body; comments are passed over, anything else throws.
async function* frames(body) {
  let text = "";
  for await (const piece of body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      let name, data;
      for (const line of text.slice(0, end).split("\n")) {
        if (line.startsWith(":")) continue;
        if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data = data === undefined ? line.slice(5) : `${data}\n${line.slice(5)}`;
        else if (line !== "") throw new Error(`unexpected line ${JSON.stringify(line)}`);
      }
      if (name === undefined && data === undefined) continue; // only comments
      if (name !== "data" && name !== "control") throw new Error(`an event named ${name}`);
      yield { name, data: JSON.parse(data) };
    }
  }
  if (text !== "") throw new Error("the window ended inside an event");
}

// readRecords yields the chunks of a stream from its beginning until it is closed, over as many windows as it takes.
export async function* readRecords(url) {
  let offset = "-1", cursor, last = 0;
  for (;;) {
    const query = new URLSearchParams({ offset, live: "sse", ...(cursor && { cursor }) });
    const r = await fetch(`${url}?${query}`);
    if (r.status !== 200) throw new Error(`${r.status} ${await r.text()}`);
    let controls = 0, open = false; // a data event whose control has not come
    for await (const { name, data } of frames(r.body)) {
      if (name === "data") {
        if (open) throw new Error("two data events and no control between");
        open = true;
        for (const { v, seq, chunk } of data) {
          if (v !== 1 || typeof chunk?.type !== "string") throw new Error("not a record");
          if (!(seq > last)) throw new Error("data records must have strictly increasing sequences");
          last = seq;
          yield { seq, chunk };
        }
        continue;
      }
      if (!data.streamNextOffset) throw new Error("a control without streamNextOffset");
      if (data.streamClosed) return;
      if (!data.streamCursor) throw new Error("an open control without streamCursor");
      [offset, cursor, open] = [data.streamNextOffset, data.streamCursor, false];
      controls++;
    }
    if (controls === 0 || open) throw new Error("the window ended without a control");
    if (offset === query.get("offset") && cursor === query.get("cursor")) throw new Error("the window made no progress");
  }
}
