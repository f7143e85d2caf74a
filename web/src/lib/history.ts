// The history of the server: samples, evictions and embedding passes. Pure.
import type { EmbeddingEvent, EvictionRow, HistoryState, PassRow, Sample } from './types';

export const NO_HISTORY: HistoryState = { samples: [], evictions: [], passes: [] };
const MAX = { samples: 300, evictions: 200, passes: 600 };

const kept = <T>(rows: readonly T[], more: readonly T[], max: number): T[] => [...rows, ...more].slice(-max);

// These add the rows of events. A row that the server returned with the history can come again as an
// event, and is then ignored.
export function withSample(history: HistoryState, sample: Sample): HistoryState {
  if (history.samples.some((one) => one[0] === sample[0])) return history;
  return { ...history, samples: kept(history.samples, [sample], MAX.samples) };
}
export function withEviction(history: HistoryState, eviction: EvictionRow): HistoryState {
  const isKnown = (one: EvictionRow) => one.time === eviction.time && one.model === eviction.model && one.class === eviction.class && one.bytes === eviction.bytes;
  if (history.evictions.some(isKnown)) return history;
  return { ...history, evictions: kept(history.evictions, [eviction], MAX.evictions) };
}
export function withPasses(history: HistoryState, event: EmbeddingEvent): HistoryState {
  const isKnown = (row: PassRow) => history.passes.some((one) => one.every((value, at) => value === row[at]));
  const rows = event.passes.map(([time, texts, tokens, ms]): PassRow => [time, texts, tokens, ms, event.model]).filter((row) => !isKnown(row));
  return { ...history, passes: kept(history.passes, rows, MAX.passes) };
}

// The history that the server returned, with the known rows that are newer than it.
export function withNews(fetched: Partial<HistoryState>, known: HistoryState): HistoryState {
  const { samples, evictions, passes } = { ...NO_HISTORY, ...fetched };
  const all = <T>(rows: readonly T[], before: readonly T[], time: (row: T) => number, max: number): T[] => {
    const last = rows[rows.length - 1];
    const since = last === undefined ? (samples[samples.length - 1]?.[0] ?? 0) : time(last);
    return kept(rows, before.filter((row) => time(row) > since), max);
  };
  return {
    samples: all(samples, known.samples, (row) => row[0], MAX.samples),
    evictions: all(evictions, known.evictions, (row) => row.time, MAX.evictions),
    passes: all(passes, known.passes, (row) => row[0], MAX.passes),
  };
}

// Tokens per second, of column 5 or 6 of the samples. Tokens are counted when their answer ends, so
// each point is the mean of the ten seconds before it.
export function rate(samples: readonly Sample[], column: 5 | 6): number[] {
  const WINDOW = 5;
  return samples.map((sample, index) => {
    const before = samples[Math.max(0, index - WINDOW)];
    const seconds = before ? (sample[0] - before[0]) / 1000 : 0;
    return before && seconds > 0 ? (sample[column] - before[column]) / seconds : 0;
  });
}

// The held bytes of each model over time, the model with the highest peak first. A model that is
// not loaded holds 0.
export function heldByModel(samples: readonly Sample[]): { name: string; bytes: number[] }[] {
  const names = new Set(samples.flatMap((sample) => Object.keys(sample[7] ?? {})));
  const rows = [...names].map((name) => ({ name, bytes: samples.map((sample) => sample[7]?.[name] ?? 0) }));
  const peak = (row: { bytes: number[] }) => Math.max(...row.bytes);
  return rows.sort((a, b) => peak(b) - peak(a) || a.name.localeCompare(b.name));
}

// Dots of the passes: their times in seconds, and for each model the tokens, null for passes of
// other models.
export function dots(passes: readonly PassRow[]): { times: number[]; models: { name: string; tokens: (number | null)[] }[] } {
  const sorted = [...passes].sort((a, b) => a[0] - b[0]);
  const names = [...new Set(sorted.map((pass) => pass[4]))].sort();
  return {
    times: sorted.map((pass) => pass[0] / 1000),
    models: names.map((name) => ({ name, tokens: sorted.map((pass) => (pass[4] === name ? pass[2] : null)) })),
  };
}
