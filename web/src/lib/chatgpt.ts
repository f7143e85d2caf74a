// Imports conversations.json of an export of ChatGPT: an array of conversations, each with a
// "mapping" of nodes that name their parents. Pure. The file is untrusted: nothing here recurses,
// cycles end, and every size has a limit.
import { titleFrom } from './tree';
import type { Chat, Message } from './types';

export interface Imported {
  chats: Chat[];
  messages: Message[];
  skipped: number; // images, files, tool calls and similar; texts and chats that are too large
}

const MAX_CHATS = 50_000;
const MAX_NODES = 20_000; // of a conversation
const MAX_TEXT = 1 << 20; // characters of a message
const MAX_TIME = 4_102_444_800_000; // the year 2100

type Json = Record<string, unknown>;

function record(value: unknown): Json {
  return value && typeof value === 'object' && !Array.isArray(value) ? (value as Json) : {};
}
function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
function list(value: unknown): unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : [];
}
// Returns milliseconds; 0 if `seconds` is no time.
function time(seconds: unknown): number {
  const ms = typeof seconds === 'number' ? Math.round(seconds * 1000) : 0;
  return ms > 0 && ms < MAX_TIME ? ms : 0;
}
// Removes the marks of citations, which are private characters around a reference.
function plain(from: string): string {
  return from.replace(/\ue200[^\ue200\ue201]{0,1000}\ue201/g, '').trim();
}

interface Piece {
  kind: 'message' | 'thinking' | 'system' | 'nothing';
  role: 'user' | 'assistant';
  text: string;
  skipped: number;
}

// Returns the text of a node's message.
function pieceOf(message: Json): Piece {
  const role = text(record(message['author'])['role']);
  const content = record(message['content']);
  const type = text(content['content_type']);
  const piece: Piece = { kind: 'nothing', role: role === 'user' ? 'user' : 'assistant', text: '', skipped: 0 };
  const isHidden = record(message['metadata'])['is_visually_hidden_from_conversation'] === true;
  const isToTool = !['', 'all'].includes(text(message['recipient']));
  if (type === 'thoughts' && role === 'assistant') {
    const thoughts = list(content['thoughts']).map(record);
    piece.text = thoughts.map((one) => [text(one['summary']), text(one['content'])].filter(Boolean).join('\n')).join('\n\n').trim();
    piece.kind = 'thinking';
  } else if (type === 'text' || type === 'multimodal_text') {
    const words: string[] = [];
    for (const part of list(content['parts'])) {
      if (typeof part === 'string') words.push(part);
      else if (record(part)['content_type'] === 'audio_transcription') words.push(text(record(part)['text']));
      else piece.skipped += 1;
    }
    piece.text = plain(words.filter((word) => word.trim()).join('\n\n'));
    if (role === 'system') piece.kind = 'system';
    else if ((role === 'user' || role === 'assistant') && !isToTool) piece.kind = 'message';
  } else if (type !== 'reasoning_recap') {
    piece.skipped += 1;
  }
  const isTooLong = piece.text.length > MAX_TEXT;
  if (piece.text === '' || isTooLong || isHidden || piece.kind === 'nothing') {
    if (piece.text !== '') piece.skipped += 1;
    return { ...piece, kind: 'nothing', text: '' };
  }
  return piece;
}

// Returns the children of each node, in the order of the file. A node whose parent is missing is a
// root, under ''.
function childrenOf(nodes: ReadonlyMap<string, Json>): Map<string, string[]> {
  const children = new Map<string, string[]>();
  for (const [id, node] of nodes) {
    const named = text(node['parent']);
    const parent = named !== id && nodes.has(named) ? named : '';
    const siblings = children.get(parent);
    if (siblings) siblings.push(id);
    else children.set(parent, [id]);
  }
  return children;
}

interface Step {
  id: string; // of the node
  parent: string; // the last kept message above it
  thoughts: string[]; // for the next answer; taken once, so that a file cannot multiply its size
  time: number;
}

function conversation(from: Json, newId: () => string): Imported {
  const nodes = new Map(Object.entries(record(from['mapping'])).map(([id, node]) => [id, record(node)] as const));
  const none: Imported = { chats: [], messages: [], skipped: 1 };
  if (nodes.size === 0 || nodes.size > MAX_NODES) return none;
  const began = time(from['create_time']);
  const chat: Chat = { id: newId(), title: text(from['title']).slice(0, 200), models: [], system: '', params: {}, leaf: '', pinned: false, created: began, updated: time(from['update_time']) || began };
  const children = childrenOf(nodes);
  const messages: Message[] = [];
  const lastKept = new Map<string, string>(); // by node: the last kept message down to it
  let skipped = 0;
  // Each node has one parent and is a child of it only, so a walk from the roots meets no node
  // twice. It does not meet nodes of a cycle.
  const steps: Step[] = [...(children.get('') ?? [])].reverse().map((id) => ({ id, parent: '', thoughts: [], time: began }));
  for (let step = steps.pop(); step; step = steps.pop()) {
    const message = record(nodes.get(step.id)?.['message']);
    const piece = pieceOf(message);
    let next = { ...step, time: Math.max(time(message['create_time']), step.time + 1) };
    skipped += 'content' in message ? piece.skipped : 0;
    if (piece.kind === 'system') chat.system ||= piece.text;
    if (piece.kind === 'thinking') next.thoughts = [...step.thoughts.splice(0), piece.text];
    if (piece.kind === 'message') {
      const made: Message = { id: newId(), chat: chat.id, parent: step.parent, role: piece.role, text: piece.text, state: 'done', created: next.time };
      if (piece.role === 'assistant') {
        const model = text(record(message['metadata'])['model_slug']).slice(0, 100);
        if (model) made.model = model;
        if (step.thoughts.length > 0) made.thinking = step.thoughts.splice(0).join('\n\n');
      }
      messages.push(made);
      next = { ...next, parent: made.id, thoughts: [] };
    }
    lastKept.set(step.id, next.parent);
    for (const id of [...(children.get(step.id) ?? [])].reverse()) steps.push({ ...next, id });
  }
  skipped += nodes.size - lastKept.size;
  const newest = messages.reduce<Message | undefined>((last, one) => (last && last.created >= one.created ? last : one), undefined);
  if (!newest) return { ...none, skipped: skipped + 1 };
  chat.leaf = lastKept.get(text(from['current_node'])) || newest.id;
  chat.title ||= titleFrom(messages[0]?.text ?? '');
  chat.created ||= messages[0]?.created ?? 0;
  chat.updated ||= newest.created;
  return { chats: [chat], messages, skipped };
}

// Parses an untrusted file. Keeps the texts of users and models, with all branches, under new ids.
// Throws Error for other files.
export function importChatGpt(file: string, newId: () => string): Imported {
  let value: unknown;
  try {
    value = JSON.parse(file);
  } catch {
    throw new Error('it is not JSON');
  }
  const rows = (Array.isArray(value) ? (value as unknown[]) : [value]).map(record);
  if (rows.length > MAX_CHATS) throw new Error(`it has more than ${MAX_CHATS} conversations`);
  if (!rows.some((row) => 'mapping' in row)) throw new Error('it is neither a file of exported chats nor conversations.json of ChatGPT');
  const all: Imported = { chats: [], messages: [], skipped: 0 };
  for (const row of rows) {
    const one = conversation(row, newId);
    all.chats.push(...one.chats);
    for (const message of one.messages) all.messages.push(message);
    all.skipped += one.skipped;
  }
  if (all.chats.length === 0) throw new Error('it has no conversation with text');
  return all;
}
