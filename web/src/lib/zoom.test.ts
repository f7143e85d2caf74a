import { describe, expect, it } from 'vitest';
import { filtered } from './waterfall';
import { panned, placed, tickText, zoomed, type View } from './zoom';

const WHOLE = 1_000_000;

describe('a zoomed waterfall', () => {
  it('keeps the time under the pointer in its place', () => {
    expect(zoomed(undefined, 2, 0.5, WHOLE)).toEqual({ begin: 250_000, end: 750_000 });
    expect(zoomed(undefined, 2, 0, WHOLE)).toEqual({ begin: 0, end: 500_000 });
    expect(zoomed({ begin: 200_000, end: 600_000 }, 2, 0.25, WHOLE)).toEqual({ begin: 250_000, end: 450_000 });
  });
  it('ends with everything', () => {
    expect(zoomed({ begin: 250_000, end: 750_000 }, 0.5, 0.5, WHOLE)).toBeUndefined();
    expect(zoomed(undefined, 0.5, 0.5, WHOLE)).toBeUndefined();
    expect(zoomed({ begin: 900_000, end: 1_000_000 }, 0.5, 0, WHOLE)).toEqual({ begin: 800_000, end: 1_000_000 });
  });
  it('shows at least a microsecond', () => {
    let view: View | undefined;
    for (let i = 0; i < 100; i += 1) view = zoomed(view, 2, 1, WHOLE);
    expect(view).toEqual({ begin: WHOLE - 1000, end: WHOLE });
    expect(zoomed(undefined, 2, 0.5, 500)).toBeUndefined();
  });
  it('moves within the request', () => {
    const view = { begin: 400_000, end: 600_000 };
    expect(panned(view, 0.5, WHOLE)).toEqual({ begin: 500_000, end: 700_000 });
    expect(panned(view, 9, WHOLE)).toEqual({ begin: 800_000, end: 1_000_000 });
    expect(panned(view, -9, WHOLE)).toEqual({ begin: 0, end: 200_000 });
    expect(panned(undefined, 1, WHOLE)).toBeUndefined();
  });
  it('shows the visible parts of spans', () => {
    const view = { begin: 100, end: 300 };
    expect(placed({ begin: 0, end: 200 }, view)).toEqual({ left: 0, width: 50 });
    expect(placed({ begin: 150, end: 900 }, view)).toEqual({ left: 25, width: 75 });
    expect(placed({ begin: 200, end: 200 }, view)).toEqual({ left: 50, width: 0 });
    expect(placed({ begin: 0, end: 99 }, view)).toBeUndefined();
    expect(placed({ begin: 301, end: 400 }, view)).toBeUndefined();
  });
  it('has different times at neighbouring ticks', () => {
    expect([0, 0.25, 0.5].map((at) => tickText(2.8e9 * at, 2.8e9 / 4, 2.8e9))).toEqual(['0', '0.70 s', '1.40 s']);
    expect([0, 1, 2].map((n) => tickText(2e9 + n * 1e6, 1e6, 2.004e9))).toEqual(['2.0000 s', '2.0010 s', '2.0020 s']);
    expect(tickText(250, 250, 1000)).toBe('0.25 µs');
    expect(tickText(5e6, 5e6, 2e7)).toBe('5.0 ms');
  });
});

it('filters spans by name and by length', () => {
  const spans = [{ name: 'prefill', begin: 0, end: 5 }, { name: 'Prefill', begin: 5, end: 25 }, { name: 'found', begin: 3, end: 3 }];
  expect(filtered(spans, '', 0)).toHaveLength(3);
  expect(filtered(spans, ' PRE ', 0)).toHaveLength(2);
  expect(filtered(spans, 'pre', 20)).toEqual([spans[1]]);
  expect(filtered(spans, 'nothing', 0)).toEqual([]);
});
