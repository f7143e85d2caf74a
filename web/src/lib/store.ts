// Stores chats in IndexedDB, or in memory if the browser does not allow IndexedDB. Sends nothing to
// a server.
import { deleteDB, openDB, type DBSchema, type IDBPDatabase } from 'idb';
import type { Chat, Message } from './types';

interface Schema extends DBSchema {
  chats: { key: string; value: Chat; indexes: { updated: number } };
  messages: { key: string; value: Message; indexes: { chat: string } };
  drafts: { key: string; value: { chat: string; text: string } };
}

export interface Store {
  readonly isLasting: boolean;
  chats(): Promise<Chat[]>; // see listed()
  messages(chat: string): Promise<Message[]>;
  // Atomic: stores all or nothing.
  put(chats: Chat[], messages: Message[]): Promise<void>;
  removeChat(id: string): Promise<void>;
  draft(chat: string): Promise<string>;
  putDraft(chat: string, text: string): Promise<void>;
}

interface Rows {
  chats: Chat[];
  messages: Message[];
}

export class StorageFull extends Error {}

// Returns the chats in the order of the list: pinned ones first, then the latest.
export function listed(chats: Chat[]): Chat[] {
  return [...chats].sort((a, b) => Number(b.pinned) - Number(a.pinned) || b.updated - a.updated);
}

type Db = IDBPDatabase<Schema>;

class IdbStore implements Store {
  readonly isLasting = true;
  #db: Promise<Db>;
  constructor(
    db: Db,
    private readonly open: () => Promise<Db>,
  ) {
    this.#db = Promise.resolve(db);
  }

  // Browsers may end a connection, for example while a tab sleeps. Then opens the database again.
  async #on<T>(work: (db: Db) => Promise<T>): Promise<T> {
    const used = this.#db;
    try {
      return await work(await used);
    } catch (error) {
      if (!(error instanceof DOMException) || !['InvalidStateError', 'UnknownError'].includes(error.name)) throw error;
      if (this.#db === used) this.#db = this.open();
      return work(await this.#db);
    }
  }

  async chats(): Promise<Chat[]> {
    return listed(await this.#on((db) => db.getAll('chats')));
  }
  messages(chat: string): Promise<Message[]> {
    return this.#on((db) => db.getAllFromIndex('messages', 'chat', chat));
  }
  async put(chats: Chat[], messages: Message[]): Promise<void> {
    try {
      await this.#on(async (db) => {
        const change = db.transaction(['chats', 'messages'], 'readwrite');
        // Messages alone are of stored chats. Another tab may have deleted them.
        const stored = chats.length === 0 ? new Set(await change.objectStore('chats').getAllKeys()) : undefined;
        const kept = messages.filter((message) => !stored || stored.has(message.chat));
        await Promise.all([
          ...chats.map((chat) => change.objectStore('chats').put(plain(chat))),
          ...kept.map((message) => change.objectStore('messages').put(plain(message))),
          change.done,
        ]);
      });
    } catch (error) {
      if (error instanceof DOMException && error.name === 'QuotaExceededError') throw new StorageFull();
      throw error;
    }
  }
  removeChat(id: string): Promise<void> {
    return this.#on(async (db) => {
      const change = db.transaction(['chats', 'messages', 'drafts'], 'readwrite');
      await change.objectStore('chats').delete(id);
      await change.objectStore('drafts').delete(id);
      for (const key of await change.objectStore('messages').index('chat').getAllKeys(id)) await change.objectStore('messages').delete(key);
      await change.done;
    });
  }
  async draft(chat: string): Promise<string> {
    return (await this.#on((db) => db.get('drafts', chat)))?.text ?? '';
  }
  async putDraft(chat: string, text: string): Promise<void> {
    await this.#on<unknown>((db) => (text ? db.put('drafts', { chat, text }) : db.delete('drafts', chat)));
  }
}

export class MemoryStore implements Store {
  readonly isLasting = false;
  #chats = new Map<string, Chat>();
  #messages = new Map<string, Message>();
  #drafts = new Map<string, string>();

  async chats(): Promise<Chat[]> {
    return listed([...this.#chats.values()].map(plain));
  }
  async messages(chat: string): Promise<Message[]> {
    return [...this.#messages.values()].filter((message) => message.chat === chat).map(plain);
  }
  async put(chats: Chat[], messages: Message[]): Promise<void> {
    for (const chat of chats) this.#chats.set(chat.id, plain(chat));
    for (const message of messages) this.#messages.set(message.id, plain(message));
  }
  async removeChat(id: string): Promise<void> {
    this.#chats.delete(id);
    this.#drafts.delete(id);
    for (const message of await this.messages(id)) this.#messages.delete(message.id);
  }
  async draft(chat: string): Promise<string> {
    return this.#drafts.get(chat) ?? '';
  }
  async putDraft(chat: string, text: string): Promise<void> {
    this.#drafts.set(chat, text);
  }
  all(): Rows & { drafts: [string, string][] } {
    return { chats: [...this.#chats.values()], messages: [...this.#messages.values()], drafts: [...this.#drafts] };
  }
}

// For a store that is full or lost: reads the old chats from it, and keeps new rows in memory until
// settle(). If the store cannot be read, `known` has the rows that the page has read before.
export class OverlayStore implements Store {
  #new = new MemoryStore();
  #nChanges = 0;
  #isSettled = false;
  constructor(
    private readonly base: Store,
    private readonly known: Rows = { chats: [], messages: [] },
  ) {}

  get isLasting(): boolean {
    return this.#isSettled && this.base.isLasting;
  }
  async chats(): Promise<Chat[]> {
    return listed(merged(await this.base.chats().catch(() => this.known.chats), await this.#new.chats()));
  }
  async messages(chat: string): Promise<Message[]> {
    const own = await this.#new.messages(chat);
    const old = await this.base.messages(chat).catch((error: unknown) => {
      const known = this.known.messages.filter((message) => message.chat === chat);
      if (known.length + own.length === 0) throw error;
      return known;
    });
    return merged(old, own);
  }
  put(chats: Chat[], messages: Message[]): Promise<void> {
    this.#nChanges += 1;
    return this.#isSettled ? this.base.put(chats, messages) : this.#new.put(chats, messages);
  }
  async removeChat(id: string): Promise<void> {
    await this.#new.removeChat(id);
    await this.base.removeChat(id);
  }
  async draft(chat: string): Promise<string> {
    return (await this.#new.draft(chat)) || this.base.draft(chat);
  }
  async putDraft(chat: string, text: string): Promise<void> {
    if (this.#isSettled) return this.base.putDraft(chat, text);
    this.#nChanges += 1;
    await this.#new.putDraft(chat, text);
    await this.base.putDraft(chat, ''); // the stored draft is out of date
  }

  // Moves the new rows into the store, which is used directly from then on. Throws if it does not
  // take them.
  async settle(): Promise<void> {
    while (!this.#isSettled) {
      const n = this.#nChanges;
      const { chats, messages, drafts } = this.#new.all();
      await this.base.put(chats, messages);
      for (const [chat, text] of drafts) await this.base.putDraft(chat, text);
      if (n !== this.#nChanges) continue;
      this.#isSettled = true;
      this.#new = new MemoryStore();
    }
  }
}

function merged<T extends { id: string }>(old: T[], fresh: T[]): T[] {
  return [...new Map([...old, ...fresh].map((one) => [one.id, one])).values()];
}

// Copies a value without Svelte's proxies, because structured clones reject proxies.
function plain<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

// Calls `onNewer` if another tab needs a newer version of the database. This tab has then closed
// it.
export async function openStore(name = 'billow', onNewer: () => void = () => undefined): Promise<Store> {
  const open = () =>
    openDB<Schema>(name, 1, {
      upgrade(fresh) {
        fresh.createObjectStore('chats', { keyPath: 'id' }).createIndex('updated', 'updated');
        fresh.createObjectStore('messages', { keyPath: 'id' }).createIndex('chat', 'chat');
        fresh.createObjectStore('drafts', { keyPath: 'chat' });
      },
      blocking(_version, _blocked, event) {
        (event.target as IDBDatabase).close();
        onNewer();
      },
    });
  try {
    return new IdbStore(await open(), open);
  } catch {
    return new MemoryStore();
  }
}

export { deleteDB };
