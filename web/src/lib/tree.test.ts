import { describe, expect, it } from 'vitest';
import { asMarkdown, exportChat, exportHead, importLines, latestLeaf, pathTo, titleFrom, treeOf, versionsOf } from './tree';
import type { Chat, Message } from './types';

const chat: Chat = { id: 'c', title: 'T', models: ['m'], system: 'be kind', params: { temperature: 0.5 }, leaf: 'd', pinned: false, created: 1, updated: 2 };
const message = (id: string, parent: string, role: Message['role'], more: Partial<Message> = {}): Message => ({ id, chat: 'c', parent, role, text: id, state: 'done', created: id.charCodeAt(0), ...more });
const rows = [message('a', '', 'user'), message('b', 'a', 'assistant'), message('c', 'a', 'assistant'), message('d', 'b', 'user'), message('e', '', 'user')];

describe('a tree of messages', () => {
  const tree = treeOf(rows);
  it('has a path to each leaf', () => {
    expect(pathTo(tree, 'd').map((one) => one.id)).toEqual(['a', 'b', 'd']);
    expect(pathTo(tree, 'nothing')).toEqual([]);
  });
  it('finds the versions of a message', () => {
    expect(versionsOf(tree, rows[1]!).map((one) => one.id)).toEqual(['b', 'c']);
    expect(versionsOf(tree, rows[0]!).map((one) => one.id)).toEqual(['a', 'e']);
    expect(latestLeaf(tree, 'a')).toBe('c');
  });
  it('stops at a cycle of messages', () => {
    const circle = treeOf([message('x', 'y', 'user'), message('y', 'x', 'user')]);
    expect(pathTo(circle, 'x')).toHaveLength(2);
    expect(['x', 'y']).toContain(latestLeaf(circle, 'x'));
  });
  it('counts answers of several models as one version', () => {
    const both = treeOf([rows[0]!, message('b', 'a', 'assistant', { group: 'g' }), message('c', 'a', 'assistant', { group: 'g' }), message('d', 'a', 'assistant')]);
    expect(versionsOf(both, both.get('c')!).map((one) => one.id)).toEqual(['c', 'd']);
    expect(versionsOf(both, both.get('d')!)).toHaveLength(2);
  });
});

describe('exported chats', () => {
  let n = 0;
  const fresh = () => `new${(n += 1)}`;
  it('are imported with all messages, under new ids', () => {
    const back = importLines([exportHead(), ...exportChat(chat, rows)].join(''), fresh);
    expect(back.chats).toHaveLength(1);
    expect(back.messages).toHaveLength(rows.length);
    expect(back.chats[0]).toMatchObject({ title: 'T', system: 'be kind', params: { temperature: 0.5 } });
    expect(back.chats[0]!.id).toMatch(/^new/);
    const tree = treeOf(back.messages);
    expect(pathTo(tree, back.chats[0]!.leaf).map((one) => one.text)).toEqual(['a', 'b', 'd']);
  });
  it('are rejected with a reason if they are invalid', () => {
    for (const bad of ['', '{}', 'x', '[]', '{"kind":"billow-chats","version":2}', '{"kind":"billow-chats","version":1}\nnot json'])
      expect(() => importLines(bad, fresh), bad).toThrow();
  });
  it('are reduced to fields of the right type', () => {
    const hostile = ['{"kind":"billow-chats","version":1}', '{"chat":{"id":1,"title":{"a":1},"models":"x","params":{"temperature":"hot","evil":1}}}', '{"chat":{"id":"c"}}',
      '{"message":{"id":"m","chat":"c","role":"system","text":"x"}}', '{"message":{"id":"n","chat":"c","role":"user","text":7,"images":["<svg>","aGk="],"state":"partial"}}', '{"message":{"chat":"elsewhere","role":"user"}}', '7', 'null'].join('\n');
    const { chats, messages } = importLines(hostile, fresh);
    expect(chats[0]).toMatchObject({ title: '', models: [], params: {} });
    expect(messages).toHaveLength(1);
    expect(messages[0]).toMatchObject({ text: '', images: ['aGk='], state: 'stopped' });
  });
});

it('exports a chat as Markdown', () => {
  expect(asMarkdown(chat, rows.slice(0, 2).map((row) => ({ ...row, model: 'm' })), { you: 'You', tool: 'Tool' })).toBe('# T\n\n> be kind\n\n## You\n\na\n\n## m\n\nb\n');
});

it('names a chat by its first line', () => {
  expect(titleFrom('## Hello **you**\nmore')).toBe('Hello you');
  expect(titleFrom('x'.repeat(100))).toHaveLength(58);
  expect(titleFrom('  ')).toBe('');
});
