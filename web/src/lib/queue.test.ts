import { describe, expect, it } from 'vitest';
import { modelOf, olderOf, placeOf } from './queue';
import type { MemoryState, TraceHead } from './types';

const trace = (id: string, status?: number): TraceHead => ({ id, route: '/api/chat', began_at: '', duration: 0, ...(status === undefined ? {} : { status }) });
const state = (waiting: number, running: number, name = 'm', phase = 'ready'): MemoryState => ({ budget_bytes: 0, granted_bytes: 0, waiting, models: [{ name, state: phase, granted_bytes: 0, held_bytes: 0, kv_in_use_bytes: 0, kv_cached_bytes: 0, resident_bytes: 0, gpu_bytes: 0, running, waiting }] });

describe('the place in the queue', () => {
  it('counts older requests that do not run', () => {
    expect(placeOf(state(3, 1), 'm', 3)).toEqual({ before: 2, waiting: 3 });
    expect(placeOf(state(2, 3), 'm', 3)).toEqual({ before: 0, waiting: 2 });
  });
  it('is never more than the requests that wait', () => expect(placeOf(state(2, 0), 'm', 3)).toEqual({ before: 1, waiting: 2 }));
  it('is none for a request that runs or whose model loads', () => {
    expect(placeOf(state(1, 4), 'm', 3)).toBeUndefined();
    expect(placeOf(state(0, 3), 'm', 3)).toBeUndefined();
    expect(placeOf(state(3, 0, 'm', 'loading'), 'm', 3)).toBeUndefined();
  });
  it('is unknown without a trace or without the model', () => {
    expect(placeOf(state(3, 1), 'm', undefined)).toEqual({ waiting: 3 });
    expect(placeOf(state(3, 1, 'n'), 'm', 3)).toEqual({ waiting: 3 });
    expect(placeOf(state(1, 1, 'n'), 'm', 0)).toBeUndefined();
  });
  it('follows from older traces that have not ended', () => {
    const traces = [trace('newer'), trace('own'), trace('b'), trace('ended', 200), trace('a')];
    expect(olderOf(traces, 'own')?.map((one) => one.id)).toEqual(['b', 'a']);
    expect(olderOf(traces, 'missing')).toBeUndefined();
  });
  it('finds the model in a trace', () => {
    const span = { name: 'found', begin: 1, end: 1, attributes: { model: 'm' } };
    expect(modelOf({ ...trace('a'), spans: [span] })).toBe('m');
    expect(modelOf({ ...trace('a'), spans: [] })).toBe('');
  });
});
