// The protocol's reference server: node reference.mjs [DIR]. It prints its URL, and keeps streams
// in DIR, or in memory without one. It ends with its standard input.
import { DurableStreamTestServer } from "@durable-streams/server";

console.log = console.info = console.warn = () => {}; // its log
const server = new DurableStreamTestServer({ port: Number(process.env.PORT ?? 0), host: "127.0.0.1", dataDir: process.argv[2] });
process.stdout.write(`${await server.start()}\n`);
process.stdin.resume().on("end", () => process.exit(0));
