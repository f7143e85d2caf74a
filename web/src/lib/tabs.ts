// What the tabs of one browser say to each other: that the stored chats have changed, and which
// answers each tab is writing.
// A tab holds a lock while it writes answers. If it crashes, the browser releases the lock, and the
// other tabs know. Pages without HTTPS have no locks; there, the answers count as being written until
// the page is loaded again.
type Word = { kind: 'changed' } | { kind: 'hello' } | { kind: 'writing'; tab: string; ids: string[] };

const lockOf = (tab: string) => `billow-writing-${tab}`;
const locks = (): LockManager | undefined => (globalThis.navigator as Navigator | undefined)?.locks;

export class Tabs {
  #channel: BroadcastChannel | undefined;
  #others = new Map<string, string[]>(); // by tab: the answers that it is writing
  #own: string[] = [];
  #unlock: (() => void) | undefined; // set while this tab holds its lock or waits for it

  constructor(
    private readonly name: string, // of this tab
    private readonly onChanged: () => void,
    private readonly onWriting: (ids: ReadonlySet<string>) => void, // all answers of the other tabs
  ) {
    if (!('BroadcastChannel' in globalThis)) return;
    this.#channel = new BroadcastChannel('billow-chats');
    this.#channel.onmessage = (event: MessageEvent<Word>) => this.#hear(event.data);
    this.#say({ kind: 'hello' });
  }

  changed(): void {
    this.#say({ kind: 'changed' });
  }
  // Names the answers that this tab is writing now.
  writing(ids: string[]): void {
    this.#own = ids;
    const say = () => this.#say({ kind: 'writing', tab: this.name, ids: this.#own });
    const manager = locks();
    if (ids.length === 0) {
      this.#unlock?.();
      this.#unlock = undefined;
    } else if (manager && !this.#unlock) {
      // The other tabs wait for this lock when they get the ids, so this tab takes the lock first.
      const written = new Promise<void>((resolve) => (this.#unlock = resolve));
      void manager.request(lockOf(this.name), () => (say(), written)).catch(say);
      return;
    }
    say();
  }
  close(): void {
    this.#channel?.close();
  }

  #say(word: Word): void {
    this.#channel?.postMessage(word);
  }
  #hear(word: Word): void {
    if (word.kind === 'hello') {
      if (this.#own.length > 0) this.writing(this.#own);
    } else if (word.kind === 'writing') {
      const isNew = !this.#others.has(word.tab);
      this.#set(word.tab, word.ids);
      if (isNew && word.ids.length > 0) void locks()?.request(lockOf(word.tab), () => this.#set(word.tab, [])).catch(() => undefined);
    } else this.onChanged();
  }
  #set(tab: string, ids: string[]): void {
    if (ids.length > 0) this.#others.set(tab, ids);
    else this.#others.delete(tab);
    this.onWriting(new Set([...this.#others.values()].flat()));
  }
}
