// Prints the results of Anthropic's npm client: node anthropic_npm.mjs PACKAGES URL AGENT
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [packages, url, agent] = process.argv.slice(2)
const { default: Anthropic } = createRequire(pathToFileURL(packages + '/'))('@anthropic-ai/sdk')
const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 })
const question = [{ role: 'user', content: 'What is the capital of France?' }]
const ask = [{ role: 'user', content: 'What is the weather like in Rome?' }]
const weather = {
  name: 'weather',
  description: 'The weather of a city.',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}
const text = (message) => message.content.map((block) => block.text ?? '').join('')
const brief = { model: 'smollm2', max_tokens: 16, messages: question, temperature: 0 }
const found = {}

const whole = await client.messages.create(brief)
found.text = text(whole)
found.stop = whole.stop_reason
const stream = client.messages.stream(brief)
found.stream = ''
stream.on('text', (delta) => { found.stream += delta })
found.final = text(await stream.finalMessage())
found.counted = (await client.messages.countTokens({ model: 'smollm2', messages: question })).input_tokens
found.used = whole.usage.input_tokens + whole.usage.cache_read_input_tokens
found.models = []
for await (const model of client.models.list()) found.models.push(model.id)

const asking = client.messages.stream({ model: agent, max_tokens: 100, messages: ask, tools: [weather] })
asking.on('inputJson', (delta, input) => { found.input = input })
const call = await asking.finalMessage()
const use = call.content.find((block) => block.type === 'tool_use')
found.called = [call.stop_reason, use.name, use.input]
found.answer = text(await client.messages.create({
  model: agent,
  max_tokens: 100,
  tools: [weather],
  messages: [...ask, { role: 'assistant', content: call.content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'It is sunny.' }] }],
}))
try {
  await client.messages.create({ ...brief, model: 'nope' })
} catch (error) {
  found.error = [error instanceof Anthropic.NotFoundError, error.status, error.error.error.type]
}
console.log(JSON.stringify(found))
