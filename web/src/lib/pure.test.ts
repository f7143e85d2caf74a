// The small pure modules.
// @ts-expect-error The page has no types of Node, but this test runs in Node.
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { errorText, lines, Failure } from './api';
import { count, duration, moment, share, size } from './format';
import { gaugeOf, rungOf } from './gauge';
import { highlight } from './highlight';
import { TokenCount } from './pieces';
import { bodyOf, optionsOf } from './request';
import { Sha256 } from './sha256';
import type { Chat, Message } from './types';
import { cosine } from './vectors';
import { progressOf, rowsOf } from './waterfall';

const chat: Chat = { id: 'c', title: '', models: ['m'], system: '', params: {}, leaf: '', pinned: false, created: 0, updated: 0 };
const message = (role: Message['role'], text: string, more: Partial<Message> = {}): Message => ({ id: text, chat: 'c', parent: '', role, text, state: 'done', created: 0, ...more });

describe('lines of a response', () => {
  const response = (...pieces: string[]) =>
    new Response(new ReadableStream({ start(control) { for (const piece of pieces) control.enqueue(new TextEncoder().encode(piece)); control.close(); } }));
  const all = async (from: Response) => { const rows = []; for await (const row of lines(from)) rows.push(row); return rows; };
  it('are complete for any split of the bytes', async () => {
    const text = '{"a":"é😀"}\n\n{"b":2}\n{"c":3}';
    const bytes = new TextEncoder().encode(text);
    for (let cut = 0; cut < bytes.length; cut += 1) {
      const stream = new Response(new ReadableStream({ start(control) { control.enqueue(bytes.slice(0, cut)); control.enqueue(bytes.slice(cut)); control.close(); } }));
      expect(await all(stream)).toEqual([{ a: 'é😀' }, { b: 2 }, { c: 3 }]);
    }
  });
  it('throw Failure if the response is incomplete', async () => {
    await expect(all(response('{"a":1}\n{"b":'))).rejects.toMatchObject({ status: 0 });
    await expect(all(response('7\n'))).rejects.toBeInstanceOf(Failure);
  });
});

it('reads errors of all forms', () => {
  expect(errorText(400, '{"error":"no"}')).toBe('no');
  expect(errorText(400, '{"error":{"message":"no"}}')).toBe('no');
  expect(errorText(404, '404 page not found\n')).toBe('404 page not found');
  expect(errorText(502, '')).toBe('the server answered 502');
});

it('formats numbers for people', () => {
  expect(count(1234567)).toBe('1,234,567');
  expect([0, 1023, 1024, 98_362_432, 5e12].map(size)).toEqual(['0 B', '1023 B', '1.0 KiB', '93.8 MiB', '4.5 TiB']);
  expect([0.004, 5.26, 334, 2780, 65_000, 3_700_000].map(duration)).toEqual(['4 µs', '5.3 ms', '334 ms', '2.78 s', '1 min 5 s', '1 h 1 min']);
  expect(share(1, 3)).toBe('33 %');
  expect(share(1, 0)).toBe('0 %');
  expect(moment('nonsense')).toBe('');
});

describe('the gauge', () => {
  const stats = { requestId: 'r', prompt: 1515, cached: 1200, written: 412, context: 8192, events: [] };
  it('shows the kinds of tokens', () => {
    expect(gaugeOf(message('assistant', 'x', { stats }))).toMatchObject({ cached: 1200, evaluated: 315, written: 412, used: 1927, limit: 8192, rung: 2048 });
    expect(gaugeOf(undefined)).toBeUndefined();
  });
  it('subtracts the tokens that a compaction dropped', () => {
    const events = [{ type: 'transition', from: 512, to: 4096, at: 0 }, { type: 'compaction', drop: 1000, at: 5 }];
    expect(gaugeOf(message('assistant', 'x', { stats: { ...stats, events } }))).toMatchObject({ used: 927, cached: 927, written: 0, rung: 4096 });
  });
  it('fills while a prompt is read', () => {
    expect(gaugeOf(undefined, { prompt: 1000, read: 400, held: 0, isWriting: false, context: 4096 })).toMatchObject({ evaluated: 400, used: 400, rung: 1024, isLive: true });
    expect(gaugeOf(undefined, { prompt: 1000, read: 1000, held: 1030, isWriting: true, context: 4096 })).toMatchObject({ used: 1030, rung: 2048 });
    expect(gaugeOf(undefined, { held: 0, isWriting: false, context: 0 })).toBeUndefined();
  });
  it('never has more memory than the limit', () => expect(rungOf(700, 600)).toBe(600));
});

it('counts tokens with the events of the server', () => {
  const count = new TokenCount();
  count.prompt = 12;
  for (let i = 0; i < 100; i += 1) count.piece();
  expect([count.written, count.held]).toEqual([100, 112]);
  count.event({ type: 'transition', from: 512, to: 1024, tokens: 512, at: 0 });
  expect([count.written, count.held, count.perPiece]).toEqual([500, 512, 5]);
  for (let i = 0; i < 10; i += 1) count.piece();
  expect([count.written, count.held]).toEqual([550, 562]);
  count.event({ type: 'compaction', drop: 400, keep: 212, tokens: 612, at: 0 });
  expect([count.written, count.held, count.perPiece]).toEqual([600, 212, 10]);
  count.piece();
  expect([count.written, count.held]).toEqual([610, 222]);
});

describe('a request', () => {
  it('has only the options that were set', () => {
    expect(optionsOf({ temperature: 0, stop: 'a\n\nb', top_k: 3 })).toEqual({ temperature: 0, stop: ['a', 'b'], top_k: 3 });
    expect(optionsOf({})).toEqual({});
  });
  it('has the conversation without empty answers', () => {
    const path = [message('user', 'q', { images: ['aGk='] }), message('assistant', ''), message('assistant', '', { tools: [{ name: 't', arguments: { a: 1 } }] }), message('tool', 'r', { toolName: 't' })];
    const body = bodyOf({ ...chat, system: 's', params: { think: 'off', format: 'schema', schema: '{"type":"object"}', keepAlive: '-1' } }, 'm', path);
    expect(body['messages']).toEqual([
      { role: 'system', content: 's' },
      { role: 'user', content: 'q', images: ['aGk='] },
      { role: 'assistant', content: '', tool_calls: [{ function: { name: 't', arguments: { a: 1 } } }] },
      { role: 'tool', content: 'r', tool_name: 't' },
    ]);
    expect(body).toMatchObject({ model: 'm', stream: true, live_events: true, think: false, format: { type: 'object' }, keep_alive: -1 });
    expect(() => bodyOf({ ...chat, params: { format: 'schema', schema: '{' } }, 'm', [])).toThrow(SyntaxError);
  });
});

it('computes SHA-256 for any pieces', () => {
  const bytes = new Uint8Array(1000).map((_, index) => (index * 7) % 256);
  for (const n of [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 1000])
    for (const step of [1, 13, 64, 1000]) {
      const hash = new Sha256();
      for (let at = 0; at < n; at += step) hash.update(bytes.subarray(at, Math.min(n, at + step)));
      expect(hash.hex(), `${n} bytes by ${step}`).toBe(createHash('sha256').update(bytes.subarray(0, n)).digest('hex'));
    }
});

describe('a trace', () => {
  const span = (name: string, begin: number, end: number, attributes = {}) => ({ name, begin, end, attributes });
  it('has a row for each of up to three spans of a name', () => {
    const rows = rowsOf([span('found', 1, 1), ...[10, 20, 30, 40].map((at) => span('prefill', at, at + 5, { tokens: at })), span('decode', 50, 90, { tokens: 1234 })]);
    expect(rows.map((row) => [row.name, row.spans.length, row.total])).toEqual([['found', 1, 0], ['prefill', 4, 20], ['decode', 1, 40]]);
    expect(rows[2]!.attributes).toEqual([['tokens', '1,234']]);
  });
  it('shows the progress of a request', () => {
    const spans = [span('tokenised', 1, 1, { tokens: 100 }), span('sized', 2, 2, { context: 1024 })];
    expect(progressOf([])).toEqual({ phase: 'sending' });
    expect(progressOf(spans)).toEqual({ phase: 'waiting', prompt: 100, context: 1024 });
    expect(progressOf([...spans, span('queued', 2, 3)]).phase).toBe('loading');
    expect(progressOf([...spans, span('assigned', 3, 3), span('prefill', 3, 4, { tokens: 64 })])).toMatchObject({ phase: 'reading', read: 64 });
    expect(progressOf([...spans, span('first token', 5, 5)]).phase).toBe('writing');
  });
});

it('highlights only known languages', () => {
  const pieces = highlight('const a = "<b>";', 'js');
  expect(pieces?.map((piece) => piece.text).join('')).toBe('const a = "<b>";');
  expect(pieces?.some((piece) => piece.className === 'hljs-keyword')).toBe(true);
  expect(highlight('x', 'klingon')).toBeUndefined();
});

it('compares vectors', () => {
  expect(cosine([1, 0], [0, 1])).toBe(0);
  expect(cosine([2, 2], [1, 1])).toBeCloseTo(1);
  expect(cosine([0, 0], [1, 1])).toBe(0);
});
