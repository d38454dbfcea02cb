// The digest of a JSON value: SHA-256 over its parts, each told apart by a letter; strings as UTF-16
// units and members in their order, numbers as what JavaScript makes of them. The Go tests compute
// the same, so that what the client holds after a recorded thread can be compared without storing it.
import { createHash } from "node:crypto";

export function digest(value) {
  const hash = createHash("sha256");
  const head = (letter, count) => {
    const b = Buffer.alloc(5);
    b.write(letter, "latin1");
    b.writeUInt32BE(count, 1);
    hash.update(b);
  };
  const put = (v) => {
    if (v === null) head("n", 0);
    else if (typeof v === "boolean") head(v ? "t" : "f", 0);
    else if (typeof v === "number") {
      const b = Buffer.alloc(8);
      b.writeDoubleBE(v);
      head("d", 0);
      hash.update(b);
    } else if (typeof v === "string") {
      head("s", v.length);
      hash.update(Buffer.from(v, "utf16le").swap16());
    } else if (Array.isArray(v)) {
      head("a", v.length);
      v.forEach(put);
    } else {
      const names = Object.keys(v).filter((n) => v[n] !== undefined).sort();
      head("o", names.length);
      for (const n of names) {
        put(n);
        put(v[n]);
      }
    }
  };
  put(value);
  return hash.digest("hex");
}
