// What the tabs of one browser say to each other: that the stored chats have changed, and which
// answers each tab is writing.
type Word = { kind: 'changed' } | { kind: 'hello' } | { kind: 'writing'; tab: string; ids: string[] };

export class Tabs {
  #channel: BroadcastChannel | undefined;
  #others = new Map<string, string[]>(); // by tab: the answers that it is writing
  #own: string[] = [];

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
    this.#say({ kind: 'writing', tab: this.name, ids });
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
      this.#others.set(word.tab, word.ids);
      this.onWriting(new Set([...this.#others.values()].flat()));
    } else this.onChanged();
  }
}
