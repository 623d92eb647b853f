// One conversation of the public AG-UI client with a server. Reads {url, headers, threadId?, messages, answer} from
// stdin: says each message, and answers whatever a run is interrupted for. Prints {events, messages, errors}.
import { createRequire } from "node:module"
import { pathToFileURL } from "node:url"

const require = createRequire(`${process.argv[2]}/package.json`)
const { HttpAgent } = await import(pathToFileURL(require.resolve("@ag-ui/client")).href)

let text = ""
for await (const chunk of process.stdin) text += chunk
const { url, headers, threadId, messages, answer, tools } = JSON.parse(text)

const events = []
const errors = []
const agent = new HttpAgent({ url, headers, threadId })

async function run(parameters) {
  try {
    await agent.runAgent({ tools, ...parameters }, { onEvent: ({ event }) => { events.push(event) } })
  } catch (error) {
    errors.push(String(error))
  }
  return events.at(-1)
}

for (const content of messages) {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content })
  let last = await run({})
  while (last?.outcome?.type === "interrupt" && answer !== undefined) {
    const resume = last.outcome.interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: answer }))
    last = await run({ resume })
  }
  while (last?.outcome?.pendingToolCallIds?.length && tools?.length) {
    for (const toolCallId of last.outcome.pendingToolCallIds)
      agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId, content: "blue" })
    last = await run({})
  }
}
if (messages.length === 0) await run({})
console.log(JSON.stringify({ events, messages: agent.messages, errors }))
