// Tells OpenCode's sessions what earlier ones learned, and has them imported. By `consolidator install opencode`.
import { spawn } from "node:child_process"

const COMMAND = "COMMAND" // python and its arguments up to the event
const TRIES = 3 // to be told something, while the service starts
const BETWEEN_IMPORTS = 600_000 // milliseconds

function run(event, session, directory) {
  return new Promise((resolve) => {
    const parts = []
    const program = spawn(COMMAND[0], [...COMMAND.slice(1), event, "opencode"], {
      stdio: ["pipe", "pipe", "ignore"],
      timeout: 2000,
    })
    program.on("error", () => resolve(""))
    program.on("close", () => resolve(Buffer.concat(parts).toString()))
    program.stdout.on("data", (part) => parts.push(part))
    program.stdin.on("error", () => {})
    program.stdin.end(JSON.stringify({ hook_event_name: event, session_id: session, cwd: directory }))
  })
}

export const Consolidator = async ({ directory }) => {
  const starts = new Map() // session -> what it is told with each of its calls of a model
  let imported = 0
  return {
    "experimental.chat.system.transform": async ({ sessionID }, output) => {
      if (!sessionID) return
      const start = starts.get(sessionID) ?? { text: "", tries: 0 }
      starts.set(sessionID, start)
      if (!start.text && start.tries++ < TRIES) start.text = await run("SessionStart", sessionID, directory)
      if (start.text) output.system.push(start.text)
    },
    event: async ({ event }) => {
      if (event.type === "session.compacted") starts.delete(event.properties.sessionID)
      if (event.type !== "session.idle" || Date.now() - imported < BETWEEN_IMPORTS) return
      imported = Date.now()
      await run("SessionEnd", event.properties.sessionID, directory)
    },
  }
}
