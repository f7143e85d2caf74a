// The body of /api/chat for a chat. Pure.
import type { Chat, Message, Params } from './types';

const NUMBERS = ['temperature', 'top_k', 'top_p', 'min_p', 'repeat_penalty', 'seed', 'num_predict'] as const;

export function optionsOf(params: Params): Record<string, unknown> {
  const options: Record<string, unknown> = {};
  for (const name of NUMBERS) if (params[name] !== undefined) options[name] = params[name];
  const stop = (params.stop ?? '').split('\n').filter((line) => line !== '');
  if (stop.length > 0) options['stop'] = stop;
  return options;
}

// Throws SyntaxError if the schema or the tools are not JSON.
export function bodyOf(chat: Chat, model: string, path: readonly Message[]): Record<string, unknown> {
  const messages: Record<string, unknown>[] = [];
  if (chat.system.trim()) messages.push({ role: 'system', content: chat.system });
  for (const message of path) {
    if (message.role === 'assistant' && !message.text && !message.tools?.length) continue;
    const row: Record<string, unknown> = { role: message.role, content: message.text };
    if (message.images?.length) row['images'] = message.images;
    if (message.tools?.length) row['tool_calls'] = message.tools.map((call) => ({ function: call }));
    if (message.toolName) row['tool_name'] = message.toolName;
    messages.push(row);
  }
  const { params } = chat;
  const body: Record<string, unknown> = { model, messages, stream: true, live_events: true, options: optionsOf(params) };
  if (params.think) body['think'] = params.think === 'on';
  if (params.format === 'json') body['format'] = 'json';
  if (params.format === 'schema' && params.schema?.trim()) body['format'] = JSON.parse(params.schema);
  if (params.tools?.trim()) body['tools'] = JSON.parse(params.tools);
  if (params.keepAlive?.trim()) {
    const text = params.keepAlive.trim();
    body['keep_alive'] = /^-?\d+$/.test(text) ? Number(text) : text;
  }
  return body;
}
