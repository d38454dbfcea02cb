// The published conformance suite, by vitest, against CONFORMANCE_TEST_URL.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";

// fetch keeps connections, so that a load balancer which knows connections only would have little
// to balance. With a connection for each request every node gets its share of every test.
if (process.env.CONFORMANCE_CONNECT_ANEW) {
  const fetch = globalThis.fetch;
  globalThis.fetch = (input, init = {}) => {
    const headers = new Headers(init.headers ?? (input instanceof Request ? input.headers : undefined));
    headers.set("connection", "close");
    return fetch(input, { ...init, headers });
  };
}

runConformanceTests({
  baseUrl: process.env.CONFORMANCE_TEST_URL,
  longPollTimeoutMs: 20_000,
  subscriptions: Boolean(process.env.CONFORMANCE_SUBSCRIPTIONS),
});
