// Prints the results of Vercel's AI SDK with its provider for each API: node vercel_ai.mjs PACKAGES URL AGENT
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [packages, url, agent] = process.argv.slice(2)
const load = createRequire(pathToFileURL(packages + '/'))
const { generateObject, generateText, stepCountIs, streamObject, streamText, tool } = load('ai')
const { createAnthropic } = load('@ai-sdk/anthropic')
const { createOpenAI } = load('@ai-sdk/openai')
const { createOpenAICompatible } = load('@ai-sdk/openai-compatible')
const { createOllama } = load('ollama-ai-provider-v2')
const { z } = load('zod')

const openai = createOpenAI({ baseURL: url + '/v1', apiKey: 'none' })
const providers = {
  responses: openai.responses,
  chat: openai.chat,
  compatible: createOpenAICompatible({ name: 'billow', baseURL: url + '/v1', includeUsage: true, supportsStructuredOutputs: true }),
  anthropic: createAnthropic({ baseURL: url + '/v1', apiKey: 'none' }),
  ollama: createOllama({ baseURL: url + '/api' }),
}
const City = z.object({ name: z.string().max(20), country: z.string().max(20) })
const describe = { schema: City, prompt: 'Describe Paris as JSON: its name and its country.' }
// Streamed answers are long: the pieces of a short one may arrive together.
const Cities = z.object(Object.fromEntries(Array.from({ length: 16 }, (_, index) => [`city${index}`, z.string().max(20)])))
const nameMany = { schema: Cities, prompt: 'Name sixteen cities as JSON.' }
const question = 'What is the capital of France?'
// Ollama's provider has its own name for model options.
const limited = (n) => ({
  temperature: 0, maxOutputTokens: n, maxRetries: 0, providerOptions: { ollama: { options: { temperature: 0, num_predict: n } } },
})
const found = {}
globalThis.AI_SDK_LOG_WARNINGS = false // warnings would mix with this program's output

for (const [name, of] of Object.entries(providers)) {
  const seen = found[name] = {}
  seen.text = (await generateText({ ...limited(16), model: of('qwen'), prompt: question })).text
  const streamed = streamText({ ...limited(16), model: of('qwen'), prompt: question, onError: ({ error }) => { throw error } })
  seen.pieces = []
  for await (const piece of streamed.textStream) seen.pieces.push(piece)
  seen.tokens = (await streamed.usage).outputTokens
  const story = streamText({ ...limited(100), model: of('qwen'), prompt: 'Tell me a long story.', onError: ({ error }) => { throw error } })
  seen.story = 0
  for await (const piece of story.textStream) seen.story += piece === '' ? 0 : 1
  seen.object = (await generateObject({ ...limited(200), ...describe, model: of('qwen') })).object
  const parts = streamObject({ ...limited(1000), ...nameMany, model: of('qwen') })
  seen.parts = 0
  for await (const part of parts.partialObjectStream) seen.parts += part === undefined ? 0 : 1
  seen.last = await parts.object
  for (const how of ['whole', 'stream']) {
    const asked = []
    const weather = tool({
      description: 'The weather of a city.',
      inputSchema: z.object({ city: z.string() }),
      strict: false,
      execute: ({ city }) => {
        asked.push(city)
        return `It is sunny in ${city}.`
      },
    })
    const task = { ...limited(200), model: of(agent), prompt: 'What is the weather like in Rome?', tools: { weather }, stopWhen: stepCountIs(4) }
    const run = how === 'whole' ? await generateText(task) : streamText(task)
    seen[how] = { text: await run.text, steps: (await run.steps).length, asked }
  }
}
console.log(JSON.stringify(found))
