import { describe, expect, it } from 'vitest';
import { NO_HISTORY, dots, heldByModel, rate, withEviction, withNews, withPasses, withSample } from './history';
import type { HistoryState, Sample } from './types';

const sample = (seconds: number, held: Record<string, number>, written = 0): Sample => [seconds * 1000, 0, 0, 0, 0, 0, written, held];

describe('history', () => {
  it('keeps the latest rows', () => {
    let history: HistoryState = NO_HISTORY;
    for (let n = 0; n < 700; n += 1) {
      history = withSample(history, sample(n, {}));
      history = withEviction(history, { time: n, model: 'm', class: 'kv_cached', bytes: n });
      history = withPasses(history, { time: n, model: 'e', passes: [[n, 1, 2, 3]] });
    }
    expect([history.samples.length, history.evictions.length, history.passes.length]).toEqual([300, 200, 600]);
    expect(history.samples[299]?.[0]).toBe(699_000);
    expect(history.passes[599]).toEqual([699, 1, 2, 3, 'e']);
    expect(NO_HISTORY.samples).toEqual([]);
  });

  it('keeps events that came while the server was asked', () => {
    const eviction = (time: number) => ({ time, model: 'm', class: 'model', bytes: 1 });
    const known: HistoryState = { samples: [sample(1, {}), sample(4, {})], evictions: [eviction(1000), eviction(4000)], passes: [[2500, 1, 1, 1, 'e']] };
    const merged = withNews({ samples: [sample(1, {}), sample(2, {})], evictions: [eviction(1000)], passes: [] }, known);
    expect(merged.samples.map((row) => row[0])).toEqual([1000, 2000, 4000]);
    expect(merged.evictions.map((row) => row.time)).toEqual([1000, 4000]);
    expect(merged.passes.map((row) => row[0])).toEqual([2500]);
    expect(withNews({}, NO_HISTORY)).toEqual(NO_HISTORY);
  });

  it('has rows once that the server returned and sent as events', () => {
    const eviction = { time: 1000, model: 'm', class: 'model', bytes: 1 };
    const known: HistoryState = { samples: [sample(1, {})], evictions: [eviction], passes: [[900, 1, 2, 3, 'e']] };
    expect(withSample(known, sample(1, {}))).toEqual(known);
    expect(withEviction(known, eviction)).toEqual(known);
    expect(withPasses(known, { time: 1000, model: 'e', passes: [[900, 1, 2, 3]] })).toEqual(known);
  });

  it('computes rates over ten seconds', () => {
    const samples = [0, 2, 4, 6, 8, 10, 12].map((seconds) => sample(seconds, {}, seconds * 30));
    expect(rate(samples, 6)).toEqual([0, 30, 30, 30, 30, 30, 30]);
    expect(rate([], 5)).toEqual([]);
  });

  it('has any number of models, the largest first', () => {
    const held = Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`m${n}`, n + 1]));
    const rows = heldByModel([sample(0, held), sample(2, { m0: 100 })]);
    expect(rows.map((row) => row.name)).toEqual(['m0', 'm8', 'm7', 'm6', 'm5', 'm4', 'm3', 'm2', 'm1']);
    expect(rows[1]?.bytes).toEqual([9, 0]);
  });

  it('takes samples of servers that do not name models', () => {
    expect(heldByModel([[0, 0, 0, 0, 5, 0, 0] as unknown as Sample])).toEqual([]);
  });

  it('makes a dot of each pass', () => {
    const { times, models } = dots([[2000, 3, 30, 1, 'b'], [1000, 1, 10, 1, 'a'], [3000, 1, 7, 1, 'a']]);
    expect(times).toEqual([1, 2, 3]);
    expect(models).toEqual([{ name: 'a', tokens: [10, null, 7] }, { name: 'b', tokens: [null, 30, null] }]);
  });
});
