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

export class StorageFull extends Error {}

// Returns the chats in the order of the list: pinned ones first, then the latest.
export function listed(chats: Chat[]): Chat[] {
  return [...chats].sort((a, b) => Number(b.pinned) - Number(a.pinned) || b.updated - a.updated);
}

class IdbStore implements Store {
  readonly isLasting = true;
  constructor(private readonly db: IDBPDatabase<Schema>) {}

  async chats(): Promise<Chat[]> {
    return listed(await this.db.getAll('chats'));
  }
  messages(chat: string): Promise<Message[]> {
    return this.db.getAllFromIndex('messages', 'chat', chat);
  }
  async put(chats: Chat[], messages: Message[]): Promise<void> {
    try {
      const change = this.db.transaction(['chats', 'messages'], 'readwrite');
      await Promise.all([
        ...chats.map((chat) => change.objectStore('chats').put(plain(chat))),
        ...messages.map((message) => change.objectStore('messages').put(plain(message))),
        change.done,
      ]);
    } catch (error) {
      if (error instanceof DOMException && error.name === 'QuotaExceededError') throw new StorageFull();
      throw error;
    }
  }
  async removeChat(id: string): Promise<void> {
    const change = this.db.transaction(['chats', 'messages', 'drafts'], 'readwrite');
    await change.objectStore('chats').delete(id);
    await change.objectStore('drafts').delete(id);
    for (const key of await change.objectStore('messages').index('chat').getAllKeys(id)) await change.objectStore('messages').delete(key);
    await change.done;
  }
  async draft(chat: string): Promise<string> {
    return (await this.db.get('drafts', chat))?.text ?? '';
  }
  async putDraft(chat: string, text: string): Promise<void> {
    if (text) await this.db.put('drafts', { chat, text });
    else await this.db.delete('drafts', chat);
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
}

// For a full store: reads the old chats from it, and keeps new chats in memory.
export class OverlayStore implements Store {
  readonly isLasting = false;
  #new = new MemoryStore();
  constructor(private readonly base: Store) {}

  async chats(): Promise<Chat[]> {
    return listed(merged(await this.base.chats(), await this.#new.chats()));
  }
  async messages(chat: string): Promise<Message[]> {
    return merged(await this.base.messages(chat), await this.#new.messages(chat));
  }
  put(chats: Chat[], messages: Message[]): Promise<void> {
    return this.#new.put(chats, messages);
  }
  async removeChat(id: string): Promise<void> {
    await this.#new.removeChat(id);
    await this.base.removeChat(id);
  }
  async draft(chat: string): Promise<string> {
    return (await this.#new.draft(chat)) || this.base.draft(chat);
  }
  async putDraft(chat: string, text: string): Promise<void> {
    await this.#new.putDraft(chat, text);
    await this.base.putDraft(chat, ''); // the stored draft is out of date
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
  try {
    const db = await openDB<Schema>(name, 1, {
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
    return new IdbStore(db);
  } catch {
    return new MemoryStore();
  }
}

export { deleteDB };
