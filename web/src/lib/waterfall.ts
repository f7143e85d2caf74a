// Turns the spans of a trace into rows, like `billow trace`: up to three spans of a name have one
// row each; more spans share a row.
import type { SpanRow } from './types';

export interface Row {
  name: string;
  spans: SpanRow[];
  begin: number; // ns since the request began
  end: number;
  total: number;
  attributes: [string, string][];
}

const MAX_SEPARATE = 3;

export function rowsOf(spans: readonly SpanRow[]): Row[] {
  const byName = new Map<string, SpanRow[]>();
  for (const span of spans) {
    const same = byName.get(span.name);
    if (same) same.push(span);
    else byName.set(span.name, [span]);
  }
  const rows: Row[] = [];
  for (const [name, same] of byName) {
    if (same.length > MAX_SEPARATE) rows.push(rowOf(name, same));
    else for (const span of same) rows.push(rowOf(name, [span]));
  }
  return rows.sort((a, b) => a.begin - b.begin || b.end - a.end);
}

function rowOf(name: string, spans: SpanRow[]): Row {
  const last = spans[spans.length - 1];
  return {
    name,
    spans,
    begin: Math.min(...spans.map((span) => span.begin)),
    end: Math.max(...spans.map((span) => span.end)),
    total: spans.reduce((sum, span) => sum + (span.end - span.begin), 0),
    attributes: Object.entries(last?.attributes ?? {}).map(([key, value]) => [key, textOf(value)]),
  };
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isInteger(value) ? value.toLocaleString('en-US') : value.toFixed(2);
  return JSON.stringify(value);
}

// The progress of a request, from the spans of its trace so far.
export interface Progress {
  phase: 'sending' | 'waiting' | 'loading' | 'reading' | 'writing';
  prompt?: number;
  read?: number;
  context?: number;
}

export function progressOf(spans: readonly SpanRow[]): Progress {
  const progress: Progress = { phase: 'sending' };
  for (const span of spans) {
    const number = (name: string) => {
      const value = span.attributes?.[name];
      return typeof value === 'number' ? value : undefined;
    };
    if (span.name === 'tokenised') progress.prompt = number('tokens');
    if (span.name === 'sized') {
      progress.context = number('context');
      progress.phase = 'waiting';
    }
    if (span.name === 'queued') progress.phase = 'loading';
    if (span.name === 'assigned') progress.phase = 'reading';
    if (span.name === 'prefill') progress.read = number('tokens');
    if (span.name === 'first token') progress.phase = 'writing';
  }
  return progress;
}
