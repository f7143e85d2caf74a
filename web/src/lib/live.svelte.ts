// The server's events as they happen (GET /api/events). Views that show the state of the server
// follow them. Without events, for example behind a proxy that holds them back, the views poll. The
// stream is open only while a visible tab follows it, because a browser has few connections.
import { app } from './app.svelte';
import { url } from './api';
import { apiKey } from './key';
import type { EmbeddingEvent, EvictionRow, MemoryState, ModelEvent, RequestEvent, SampleEvent } from './types';

export interface Events {
  memory: MemoryState;
  sample: SampleEvent;
  model: ModelEvent;
  eviction: EvictionRow;
  embedding: EmbeddingEvent;
  request: RequestEvent;
  context: unknown;
}
const NAMES = ['memory', 'sample', 'model', 'eviction', 'embedding', 'request', 'context'] as const satisfies readonly (keyof Events)[];

export interface Follower {
  every: number; // ms between polls without events
  refresh: () => Promise<void>; // reads the whole state
  on?: { [Name in keyof Events]?: (data: Events[Name]) => void };
  // Returns whether the state changes without events, so that it is polled anyway.
  isMoving?: () => boolean;
}

const IDLE_MS = 30_000; // between polls with events, in case that an event was lost
const RETRY_MS = 10_000; // after the server refused the stream

class Live {
  isOn = $state(false); // events arrive
  #followers = new Set<Follower>();
  #source: EventSource | undefined;
  #retry = 0;

  // Follows until the returned function is called.
  follow(follower: Follower): () => void {
    this.#followers.add(follower);
    let last = Date.now();
    void follower.refresh();
    const TICK = Math.min(follower.every, 500);
    const timer = setInterval(() => {
      const pause = this.isOn && !follower.isMoving?.() ? IDLE_MS : follower.every;
      if (document.hidden || !app.isUp || Date.now() - last < pause - TICK / 2) return;
      last = Date.now();
      void follower.refresh();
    }, TICK);
    const onVisible = () => this.#update();
    document.addEventListener('visibilitychange', onVisible);
    this.#update();
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', onVisible);
      this.#followers.delete(follower);
      this.#update();
    };
  }

  #update(): void {
    const isWanted = this.#followers.size > 0 && !document.hidden;
    if (isWanted && !this.#source) this.#open();
    if (!isWanted) this.#close();
  }

  #open(): void {
    clearTimeout(this.#retry);
    // A stream of events cannot carry an API key. With a key, the page polls.
    if (!('EventSource' in globalThis) || apiKey()) return;
    const source = new EventSource(url('/api/events'));
    this.#source = source;
    source.onopen = () => {
      this.isOn = true;
      this.#refresh();
    };
    source.onerror = () => {
      this.isOn = false;
      // The browser connects again by itself unless the server refused.
      if (source.readyState === EventSource.CLOSED) this.#again();
    };
    for (const name of NAMES) {
      source.addEventListener(name, (event: MessageEvent<string>) => {
        let data: never;
        try {
          data = JSON.parse(event.data) as never;
        } catch {
          return;
        }
        for (const { on } of this.#followers) on?.[name]?.(data);
      });
    }
    source.addEventListener('missed', () => this.#refresh());
    source.addEventListener('end', () => this.#again()); // the server ends
  }

  #again(): void {
    this.#close();
    this.#retry = window.setTimeout(() => this.#update(), RETRY_MS);
  }

  #close(): void {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = undefined;
    this.isOn = false;
  }

  #refresh(): void {
    for (const follower of this.#followers) void follower.refresh();
  }
}

export const live = new Live();

// Calls `work` soon, at most once in `ms`.
export function throttled(ms: number, work: () => void): () => void {
  let timer = 0;
  return () => {
    timer ||= window.setTimeout(() => {
      timer = 0;
      work();
    }, ms);
  };
}
