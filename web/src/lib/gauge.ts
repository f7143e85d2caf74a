// The contents of a chat's gauge: the parts of the context. Pure.
import type { Message, Stats } from './types';

export interface Live {
  prompt?: number | undefined;
  read?: number | undefined;
  held: number; // while isWriting
  isWriting: boolean;
  context: number;
}

export interface Gauge {
  cached: number;
  evaluated: number;
  written: number;
  limit: number;
  rung: number; // tokens that fit the granted memory; 0: unknown
  used: number;
  isLive: boolean;
}

const FIRST_RUNG = 512;

export function rungOf(used: number, limit: number): number {
  let rung = FIRST_RUNG;
  while (rung < used) rung *= 2;
  return Math.min(rung, limit);
}

// The context no longer holds the tokens that a compaction has dropped.
function heldOf(stats: Stats): number {
  const dropped = stats.events.reduce((sum, event) => sum + (event.type === 'transition' ? 0 : (event.drop ?? 0)), 0);
  return Math.max(0, (stats.prompt ?? 0) + (stats.written ?? 0) - dropped);
}

export function gaugeOf(last: Message | undefined, live?: Live): Gauge | undefined {
  if (live) {
    if (live.context <= 0 && !live.prompt) return undefined;
    const prompt = live.prompt ?? 0;
    const used = live.isWriting ? live.held : Math.min(live.read ?? 0, prompt);
    const evaluated = Math.min(prompt, used);
    return { cached: 0, evaluated, written: used - evaluated, limit: live.context, rung: rungOf(Math.max(prompt, used) + 1, live.context), used, isLive: true };
  }
  const stats = last?.stats;
  if (!stats?.context || stats.prompt === undefined) return undefined;
  const used = stats.held ?? heldOf(stats);
  const cached = Math.min(stats.cached ?? 0, used);
  const evaluated = Math.min((stats.prompt ?? 0) - (stats.cached ?? 0), used - cached);
  const grown = [...stats.events].reverse().find((event) => event.type === 'transition')?.to;
  return {
    cached,
    evaluated,
    written: Math.max(0, used - cached - evaluated),
    limit: stats.context,
    rung: grown ?? rungOf(used, stats.context),
    used,
    isLive: false,
  };
}
