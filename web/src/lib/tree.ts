// The messages of a chat are a tree: an edit or another answer is a sibling, so nothing is lost.
// Pure functions over plain messages.
import type { Chat, Message } from './types';

export type Tree = ReadonlyMap<string, Message>;

export function treeOf(messages: readonly Message[]): Tree {
  return new Map([...messages].sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1)).map((message) => [message.id, message]));
}

// Children by parent, computed once per tree, because every message of a chat needs its versions.
const indexes = new WeakMap<Tree, Map<string, Message[]>>();

export function childrenOf(tree: Tree, parent: string): readonly Message[] {
  let index = indexes.get(tree);
  if (!index) {
    index = new Map();
    for (const message of tree.values()) {
      const siblings = index.get(message.parent);
      if (siblings) siblings.push(message);
      else index.set(message.parent, [message]);
    }
    indexes.set(tree, index);
  }
  return index.get(parent) ?? [];
}

// Returns the messages from the first one to the leaf. Stops at a cycle or a missing parent.
export function pathTo(tree: Tree, leaf: string): Message[] {
  const path: Message[] = [];
  const seen = new Set<string>();
  for (let at = tree.get(leaf); at && !seen.has(at.id); at = tree.get(at.parent)) {
    seen.add(at.id);
    path.push(at);
  }
  return path.reverse();
}

// Returns the leaf below a message, following the newest children.
export function latestLeaf(tree: Tree, from: string): string {
  const seen = new Set<string>();
  let at = from;
  for (;;) {
    seen.add(at);
    const children = childrenOf(tree, at);
    const last = children[children.length - 1];
    if (!last || seen.has(last.id)) return at;
    at = last.id;
  }
}

// Returns all versions of a message, including itself, oldest first. Answers of several models to
// one question count as one version.
export function versionsOf(tree: Tree, message: Message): Message[] {
  const seen = new Set<string>();
  return childrenOf(tree, message.parent).filter((other) => {
    if (other.role !== message.role) return false;
    if (!other.group) return true;
    if (other.group === message.group) return other.id === message.id;
    if (seen.has(other.group)) return false;
    seen.add(other.group);
    return true;
  });
}

export function titleFrom(text: string): string {
  const line = text.trim().split('\n')[0]?.replace(/[#*_`>]/g, '').trim() ?? '';
  return line.length > 60 ? `${line.slice(0, 57).trimEnd()}…` : line;
}

// A file of exported chats has a header line, then a line for each chat and each message.
const KIND = 'billow-chats';

export function exportHead(): string {
  return lineOf({ kind: KIND, version: 1 });
}

// The lines of one chat. They stay apart, because all chats may be too long for one string.
export function exportChat(chat: Chat, messages: readonly Message[]): string[] {
  return [lineOf({ chat }), ...messages.map((message) => lineOf({ message }))];
}

function lineOf(row: unknown): string {
  return `${JSON.stringify(row)}\n`;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function number(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

function record(value: unknown): Record<string, unknown> {
  return value && typeof value === 'object' && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

// Parses an untrusted file of exported chats. Takes only known fields with the right type. All ids
// are new, so that the import overwrites nothing. Throws Error for other files.
export function importLines(file: string, newId: () => string): { chats: Chat[]; messages: Message[] } {
  const rows = file
    .split('\n')
    .filter((line) => line.trim())
    .map((line, index) => {
      try {
        return record(JSON.parse(line));
      } catch {
        throw new Error(`line ${index + 1} is not JSON`);
      }
    });
  const head = rows.shift();
  if (!head || head['kind'] !== KIND) throw new Error('it is not a file of exported chats');
  if (head['version'] !== 1) throw new Error(`its version ${JSON.stringify(head['version'])} is not supported`);
  const chats: Chat[] = [];
  const messages: Message[] = [];
  const ids = new Map<string, string>();
  const fresh = (old: string) => {
    if (!old) return '';
    const known = ids.get(old);
    if (known) return known;
    const made = newId();
    ids.set(old, made);
    return made;
  };
  for (const row of rows) {
    if (row['chat']) {
      const chat = record(row['chat']);
      chats.push({
        id: fresh(`c:${text(chat['id'])}`),
        title: text(chat['title']).slice(0, 200),
        models: Array.isArray(chat['models']) ? chat['models'].map(text).filter(Boolean).slice(0, 8) : [],
        system: text(chat['system']),
        params: paramsFrom(record(chat['params'])),
        leaf: chat['leaf'] ? fresh(`m:${text(chat['leaf'])}`) : '',
        pinned: chat['pinned'] === true,
        created: number(chat['created']),
        updated: number(chat['updated']),
      });
    } else if (row['message']) {
      const message = record(row['message']);
      const role = text(message['role']);
      if (role !== 'user' && role !== 'assistant' && role !== 'tool') continue;
      const state = text(message['state']);
      const made: Message = {
        id: fresh(`m:${text(message['id'])}`),
        chat: fresh(`c:${text(message['chat'])}`),
        parent: message['parent'] ? fresh(`m:${text(message['parent'])}`) : '',
        role,
        text: text(message['text']),
        state: state === 'error' || state === 'stopped' ? state : state === 'partial' ? 'stopped' : 'done',
        created: number(message['created']),
      };
      if (message['thinking']) made.thinking = text(message['thinking']);
      if (message['model']) made.model = text(message['model']);
      if (message['error']) made.error = text(message['error']);
      if (message['toolName']) made.toolName = text(message['toolName']);
      if (message['group']) made.group = fresh(`g:${text(message['group'])}`);
      if (Array.isArray(message['images'])) made.images = message['images'].map(text).filter((image) => /^[A-Za-z0-9+/]+=*$/.test(image));
      if (Array.isArray(message['tools']))
        made.tools = message['tools'].map((call) => ({ name: text(record(call)['name']), arguments: record(call)['arguments'] }));
      messages.push(made);
    }
  }
  const known = new Set(chats.map((chat) => chat.id));
  return { chats, messages: messages.filter((message) => known.has(message.chat)) };
}

function paramsFrom(params: Record<string, unknown>): Chat['params'] {
  const made: Record<string, unknown> = {};
  for (const name of ['temperature', 'top_k', 'top_p', 'min_p', 'repeat_penalty', 'seed', 'num_predict'])
    if (typeof params[name] === 'number') made[name] = params[name];
  for (const name of ['stop', 'schema', 'tools', 'keepAlive']) if (typeof params[name] === 'string') made[name] = params[name];
  if (params['think'] === 'on' || params['think'] === 'off') made['think'] = params['think'];
  if (params['format'] === 'json' || params['format'] === 'schema') made['format'] = params['format'];
  return made as Chat['params'];
}

export function asMarkdown(chat: Chat, path: readonly Message[], names: { you: string; tool: string }): string {
  const parts = [`# ${chat.title}`];
  if (chat.system) parts.push(`> ${chat.system.split('\n').join('\n> ')}`);
  for (const message of path) {
    const who = message.role === 'user' ? names.you : message.role === 'tool' ? names.tool : (message.model ?? '');
    parts.push(`## ${who}\n\n${message.text}`);
  }
  return `${parts.join('\n\n')}\n`;
}
