import { afterEach, expect, it, vi } from 'vitest';
import { Tabs } from './tabs';

const made: Tabs[] = [];
function tab(name: string) {
  const heard = { changes: 0, ids: [] as string[] };
  const tabs = new Tabs(name, () => (heard.changes += 1), (ids) => (heard.ids = [...ids]));
  made.push(tabs);
  return { tabs, heard };
}
const holds = (check: () => void) => vi.waitFor(check, { timeout: 60_000 });
afterEach(() => made.splice(0).forEach((one) => one.close()));

it('names the answers of all other tabs', async () => {
  const [a, b, c] = [tab('a'), tab('b'), tab('c')];
  a.tabs.writing(['1', '2']);
  b.tabs.writing(['3']);
  await holds(() => expect(c.heard.ids).toEqual(['1', '2', '3']));
  await holds(() => expect(a.heard.ids).toEqual(['3']));
  a.tabs.writing(['2']);
  await holds(() => expect(c.heard.ids).toEqual(['2', '3']));
  b.tabs.changed();
  await holds(() => expect([a.heard.changes, b.heard.changes, c.heard.changes]).toEqual([1, 0, 1]));
});

it('gives a new tab the answers that are being written', async () => {
  const a = tab('a');
  a.tabs.writing(['1']);
  const late = tab('late');
  await holds(() => expect(late.heard.ids).toEqual(['1']));
});

// Locks like the browser's: one holder at a time, in the order of the requests.
class FakeLocks {
  #last = new Map<string, Promise<unknown>>();
  #dead = new Map<string, () => void>();
  request(name: string, use: () => unknown): Promise<unknown> {
    const crash = new Promise<void>((resolve) => this.#dead.set(name, this.#dead.get(name) ?? resolve));
    const done = (this.#last.get(name) ?? Promise.resolve()).then(() => Promise.race([use(), crash]));
    this.#last.set(name, done);
    return done;
  }
  // Ends the first holder of a lock, as the browser does when its tab crashes.
  crash(name: string): void {
    this.#dead.get(name)?.();
  }
}

it('forgets the answers of a crashed tab', async () => {
  const locks = new FakeLocks();
  vi.stubGlobal('navigator', { locks });
  const [a, b, c] = [tab('a'), tab('b'), tab('c')];
  a.tabs.writing(['1']);
  b.tabs.writing(['2']);
  await holds(() => expect(c.heard.ids).toEqual(['1', '2']));
  locks.crash('billow-writing-a');
  await holds(() => expect(c.heard.ids).toEqual(['2']));
  b.tabs.writing([]);
  await holds(() => expect(c.heard.ids).toEqual([]));
  b.tabs.writing(['3']);
  await holds(() => expect(c.heard.ids).toEqual(['3']));
  vi.unstubAllGlobals();
});
