// Calls tools of an MCP server over stdio with the TypeScript SDK.
// Arguments: the folder of node's packages, then the server's command. Standard input: [[tool, arguments], ...].
// Standard output: what each call answered, [{error, text, structured}, ...].
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [packages, command, ...args] = process.argv.slice(2);
const require = createRequire(`${packages}/index.js`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");

const client = new Client({ name: "test", version: "1" }, { capabilities: {} });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" }));
const answers = [];
for (const [name, given] of JSON.parse(readFileSync(0, "utf-8"))) {
  const answer = await client.callTool({ name, arguments: given });
  const text = answer.content.map((part) => part.text).join("\n");
  answers.push({ error: answer.isError === true, text, structured: answer.structuredContent !== undefined });
}
const { tools } = await client.listTools();
await client.close();
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), answers }));
