// The place of a waiting request. Pure. The server does not report a place, so the page counts the
// older requests of the model that have not ended, without those that run. A model's queue is in
// order of arrival.
import type { MemoryState, TraceFull, TraceHead } from './types';

export interface Place {
  before?: number; // requests that wait before this one; absent: unknown
  waiting: number; // all requests that wait, with this one
}

// Returns the requests that are older than `id` and have not ended. `traces` is the list of the
// server, newest first. Returns undefined if the list does not have `id`.
export function olderOf(traces: readonly TraceHead[], id: string): TraceHead[] | undefined {
  const at = traces.findIndex((trace) => trace.id === id);
  return at < 0 ? undefined : traces.slice(at + 1).filter((trace) => trace.status === undefined);
}

// The list has no model for a request that has not ended, but the trace itself does. Returns '' if
// the server has not found the model yet.
export function modelOf(trace: TraceFull): string {
  const model = trace.spans.find((span) => span.name === 'found')?.attributes?.['model'];
  return typeof model === 'string' ? model : '';
}

// `older`: number of older requests of the model that have not ended; undefined: unknown. Returns
// undefined if the request does not wait for its turn: it runs, or its model loads.
export function placeOf(memory: MemoryState, model: string, older: number | undefined): Place | undefined {
  const row = memory.models.find((one) => one.name === model);
  // Without a row, the model waits for memory of other models, or runs under another name. A single
  // request is then this one, whose load is about to begin.
  if (!row) return memory.waiting > 1 ? { waiting: memory.waiting } : undefined;
  const { waiting, running } = row;
  if (waiting <= 0 || row.state === 'loading') return undefined;
  if (older === undefined) return { waiting };
  if (running > older) return undefined; // the older ones do not fill the places, so this one runs
  return { before: Math.min(older - running, waiting - 1), waiting };
}
