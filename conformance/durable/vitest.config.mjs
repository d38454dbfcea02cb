import { defineConfig } from "vitest/config";

export default defineConfig({ test: { include: ["suite.mjs"], exclude: [], testTimeout: 60_000 } });
