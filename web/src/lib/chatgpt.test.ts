import { describe, expect, it } from 'vitest';
import { importChatGpt } from './chatgpt';
import { importChats } from './import';
import { exportChat, exportHead, latestLeaf, pathTo, treeOf, versionsOf } from './tree';

let n = 0;
const fresh = () => `new${(n += 1)}`;
const node = (parent: string | null, role: string, parts: unknown[], more: object = {}) => ({
  parent,
  message: { author: { role }, content: { content_type: 'text', parts }, create_time: 1700000000 + parts.length, ...more },
});
const one = (mapping: object, more: object = {}) => ({ title: 'T', create_time: 1700000000.5, update_time: 1700000100, mapping, ...more });
const read = (...conversations: unknown[]) => importChatGpt(JSON.stringify(conversations), fresh);
const textsOf = (made: ReturnType<typeof importChatGpt>, at = 0) => pathTo(treeOf(made.messages), made.chats[at]!.leaf).map((message) => message.text);

describe('conversations.json of ChatGPT', () => {
  const branches = one(
    {
      root: { parent: null, message: null },
      sys: node('root', 'system', ['']),
      q: node('sys', 'user', ['Question']),
      a1: node('q', 'assistant', ['First'], { create_time: 1700000010, metadata: { model_slug: 'gpt-4o' } }),
      a2: node('q', 'assistant', ['Second'], { create_time: 1700000020 }),
      q2: node('a1', 'user', ['More'], { create_time: 1700000030 }),
    },
    { current_node: 'q2' },
  );
  it('is imported with all branches', () => {
    const made = read(branches);
    expect(made.skipped).toBe(0);
    expect(made.chats[0]).toMatchObject({ title: 'T', models: [], created: 1700000000500, updated: 1700000100000 });
    expect(textsOf(made)).toEqual(['Question', 'First', 'More']);
    const tree = treeOf(made.messages);
    const first = made.messages.find((message) => message.text === 'First')!;
    expect(versionsOf(tree, first).map((message) => message.text)).toEqual(['First', 'Second']);
    expect(first).toMatchObject({ model: 'gpt-4o', role: 'assistant', state: 'done' });
    expect(made.messages.every((message) => message.chat === made.chats[0]!.id && message.id.startsWith('new'))).toBe(true);
  });
  it('skips what is no text, and counts it', () => {
    const made = read(
      one(
        {
          q: node(null, 'user', ['Look', { content_type: 'image_asset_pointer' }, { content_type: 'audio_transcription', text: 'spoken' }], { content: { content_type: 'multimodal_text', parts: ['Look', { content_type: 'image_asset_pointer' }, { content_type: 'audio_transcription', text: 'spoken' }] } }),
          call: node('q', 'assistant', ['x'], { recipient: 'python', content: { content_type: 'code', text: 'print(1)' } }),
          out: node('call', 'tool', ['1'], { content: { content_type: 'execution_output', text: '1' } }),
          note: node('out', 'tool', ['a result']),
          to: node('note', 'assistant', ['search(1)'], { recipient: 'browser' }),
          hidden: node('to', 'user', ['About me'], { metadata: { is_visually_hidden_from_conversation: true } }),
          recap: node('hidden', 'assistant', [], { content: { content_type: 'reasoning_recap', content: 'Thought for 5 s' } }),
          a: node('recap', 'assistant', ['It is 1\ue200cite\ue202turn0search0\ue201.']),
        },
        { current_node: 'a' },
      ),
      one({ only: node(null, 'user', ['']) }),
    );
    expect(textsOf(made)).toEqual(['Look\n\nspoken', 'It is 1.']);
    expect(made.chats).toHaveLength(1);
    expect(made.skipped).toBe(7);
  });
  it('keeps system prompts and thinking', () => {
    const thoughts = (text: string) => ({ content: { content_type: 'thoughts', thoughts: [{ summary: 'Plan', content: text }] } });
    const made = read(one({ s: node(null, 'system', ['Be kind']), q: node('s', 'user', ['Q']), t: node('q', 'assistant', [], thoughts('one')), u: node('t', 'assistant', [], thoughts('two')), a: node('u', 'assistant', ['A']), b: node('a', 'assistant', ['B']) }, { current_node: 'b' }));
    expect(made.chats[0]!.system).toBe('Be kind');
    expect(made.messages.map((message) => message.thinking)).toEqual([undefined, 'Plan\none\n\nPlan\ntwo', undefined]);
    expect(made.skipped).toBe(0);
  });
  it('ends at the newest message without a current node, and gets a title', () => {
    const made = read({ mapping: { q: node('gone', 'user', ['## Hello'], { create_time: null }), a: node('q', 'assistant', ['Hi'], { create_time: 'x' }) }, current_node: 'nowhere' });
    expect(textsOf(made)).toEqual(['## Hello', 'Hi']);
    expect(made.chats[0]!.title).toBe('Hello');
  });

  it('may have cycles, and nodes that are their own parents', () => {
    const made = read(one({ x: node('y', 'user', ['x']), y: node('x', 'user', ['y']), self: node('self', 'user', ['self']), ok: node('self', 'assistant', ['ok']) }, { current_node: 'x' }));
    expect(made.messages.map((message) => message.text)).toEqual(['self', 'ok']);
    expect(made.skipped).toBe(2);
    expect(textsOf(made)).toEqual(['self', 'ok']);
  });
  it('may be deep', () => {
    const mapping: Record<string, unknown> = {};
    for (let i = 0; i < 20_000; i += 1) mapping[`n${i}`] = node(i ? `n${i - 1}` : null, i % 2 ? 'assistant' : 'user', [`${i}`], { create_time: 0 });
    const made = read(one(mapping));
    const tree = treeOf(made.messages);
    expect(pathTo(tree, made.chats[0]!.leaf)).toHaveLength(20_000);
    expect(latestLeaf(tree, made.messages[0]!.id)).toBe(made.chats[0]!.leaf);
    expect(() => importChatGpt(`${'['.repeat(200_000)}${']'.repeat(200_000)}`, fresh)).toThrow();
  }, 60_000);
  it('is limited in size', () => {
    const big = 'x'.repeat((1 << 20) + 1);
    const made = read(one({ a: node(null, 'user', [big]), b: node('a', 'user', ['b']) }), one(Object.fromEntries(Array.from({ length: 20_001 }, (_, i) => [i, null]))));
    expect(made.messages.map((message) => message.text)).toEqual(['b']);
    expect(made.skipped).toBe(2);
    expect(() => importChatGpt(JSON.stringify(Array(50_001).fill(0)), fresh)).toThrow('more than 50000');
  });
  it('does not grow by thinking that many answers share', () => {
    const mapping: Record<string, unknown> = { t: node(null, 'assistant', [], { content: { content_type: 'thoughts', thoughts: [{ content: 'x'.repeat(10_000) }] } }) };
    for (let i = 0; i < 1000; i += 1) mapping[`a${i}`] = node('t', 'assistant', ['a']);
    const made = read(one(mapping));
    expect(made.messages.filter((message) => message.thinking)).toHaveLength(1);
  });
  it('is read in linear time with unfinished marks of citations', () => {
    const began = Date.now();
    read(one({ a: node(null, 'user', ['\ue200'.repeat(500_000)]), b: node('a', 'user', [`\ue200${'x'.repeat(999_999)}`]) }));
    expect(Date.now() - began).toBeLessThan(60_000);
  });
  it('may have any wrong types', () => {
    const wrong = [7, null, 'x', [], {}, { mapping: 7 }, { mapping: { a: 7, b: null, c: { message: 7 }, d: { message: { author: 7, content: { content_type: 'text', parts: 7 } }, parent: {} } } }];
    expect(() => read(...wrong)).toThrow('no conversation with text');
    const kept = importChatGpt(`[{"__proto__":{"polluted":1},"title":{"a":1},"create_time":1e300,"mapping":{"__proto__":${JSON.stringify(node(null, 'user', ['<img src=x>']))}}}]`, fresh);
    expect(kept.messages[0]).toMatchObject({ role: 'user', text: '<img src=x>' });
    expect(kept.chats[0]).toMatchObject({ title: '<img src=x' });
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
  it('is refused with a reason if it is another file', () => {
    for (const [bad, why] of [['x', 'not JSON'], ['{}', 'neither'], ['[]', 'neither'], ['[1]', 'neither'], ['7', 'neither']] as const) expect(() => importChatGpt(bad, fresh), bad).toThrow(why);
  });
});

it('imports each known format', () => {
  const chat = { id: 'c', title: 'T', models: ['m'], system: '', params: {}, leaf: '', pinned: false, created: 1, updated: 2 };
  expect(importChats([exportHead(), ...exportChat(chat, [])].join(''), fresh)).toMatchObject({ chats: [{ title: 'T' }], skipped: 0 });
  expect(importChats(`\ufeff [${JSON.stringify(one({ q: node(null, 'user', ['Q']) }))}]`, fresh).messages).toHaveLength(1);
  expect(importChats(JSON.stringify(one({ q: node(null, 'user', ['Q']) })), fresh).messages).toHaveLength(1);
  expect(() => importChats('{"kind":"billow-chats","version":2}', fresh)).toThrow('version 2');
});
