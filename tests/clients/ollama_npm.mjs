// Prints the results of Ollama's npm client: node ollama_npm.mjs PACKAGES URL EMBEDDER
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const { Ollama } = createRequire(pathToFileURL(process.argv[2] + '/'))('ollama')
const ollama = new Ollama({ host: process.argv[3] })
const options = { temperature: 0, num_predict: 24 }
const messages = [{ role: 'user', content: 'What is the capital of France?' }]
const found = {}

found.generate = (await ollama.generate({ model: 'smollm2', prompt: messages[0].content, options })).response
found.chat = (await ollama.chat({ model: 'smollm2', messages, options })).message.content
found.stream = ''
for await (const part of await ollama.chat({ model: 'smollm2', messages, options, stream: true })) {
  found.stream += part.message.content
}
found.models = (await ollama.list()).models.map((model) => model.name)
found.running = (await ollama.ps()).models.map((model) => model.name)
found.vectors = (await ollama.embed({ model: process.argv[4], input: ['a', 'b'] })).embeddings.length
found.family = (await ollama.show({ model: 'smollm2' })).details.family
found.created = (await ollama.create({ model: 'node', from: 'smollm2', system: 'Be brief.' })).status
await ollama.copy({ source: 'node', destination: 'node2' })
await ollama.delete({ model: 'node2' })
found.deleted = (await ollama.delete({ model: 'node' })).status
try {
  await ollama.chat({ model: 'nope', messages })
} catch (error) {
  found.error = [error.status_code, error.error]
}
try {
  // The format needs a long answer: a short one may end before this program reads its first part.
  const format = { type: 'array', items: { type: 'string', pattern: '^[a-z]{4,12}$' }, minItems: 1000 }
  const endless = await ollama.generate({ model: 'smollm2', prompt: 'Count.', stream: true, format, options: { num_predict: 2000 } })
  for await (const part of endless) {
    if (part.response) endless.abort()
  }
} catch (error) {
  found.aborted = error.name
}
console.log(JSON.stringify(found))
