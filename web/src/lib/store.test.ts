import 'fake-indexeddb/auto';
import { describe, expect, it } from 'vitest';
import { MemoryStore, OverlayStore, StorageFull, openStore, type Store } from './store';
import type { Chat, Message } from './types';

const chat = (id: string, updated: number): Chat => ({ id, title: id, models: [], system: '', params: {}, leaf: '', pinned: false, created: 0, updated });
const message = (id: string, of: string): Message => ({ id, chat: of, parent: '', role: 'user', text: id, state: 'done', created: 0 });

const stores: [string, () => Promise<Store>][] = [
  ['IndexedDB', () => openStore('test')],
  ['memory', async () => new MemoryStore()],
];

for (const [name, open] of stores) {
  describe(name, () => {
    it('keeps chats, messages and drafts', async () => {
      const store = await open();
      expect(store.isLasting).toBe(name === 'IndexedDB');
      await store.put([chat('a', 1), chat('b', 2)], [message('1', 'a'), message('2', 'a'), message('3', 'b')]);
      expect((await store.chats()).map((one) => one.id)).toEqual(['b', 'a']);
      expect((await store.messages('a')).map((one) => one.id).sort()).toEqual(['1', '2']);
      await store.put([], [{ ...message('1', 'a'), text: 'changed' }]);
      expect((await store.messages('a')).find((one) => one.id === '1')?.text).toBe('changed');
      await store.putDraft('a', 'half a question');
      expect(await store.draft('a')).toBe('half a question');
      await store.removeChat('a');
      expect((await store.chats()).map((one) => one.id)).toEqual(['b']);
      expect(await store.messages('a')).toEqual([]);
      expect(await store.draft('a')).toBe('');
      expect(await store.messages('b')).toHaveLength(1);
    });
    it('lists pinned chats first, then the latest', async () => {
      const store = await open();
      await store.put([{ ...chat('p', 4), pinned: true }, chat('q', 6), chat('r', 7), { ...chat('s', 5), pinned: true }], []);
      expect((await store.chats()).map((one) => one.id).filter((id) => 'pqrs'.includes(id))).toEqual(['s', 'p', 'r', 'q']);
      await Promise.all(['p', 'q', 'r', 's'].map((id) => store.removeChat(id)));
    });
    it('returns copies', async () => {
      const store = await open();
      const mine = chat('c', 3);
      await store.put([mine], []);
      mine.title = 'changed outside';
      expect((await store.chats()).find((one) => one.id === 'c')?.title).toBe('c');
    });
  });
}

it('adds no messages to a chat that another tab has deleted', async () => {
  const [one, other] = [await openStore('two'), await openStore('two')];
  await one.put([chat('a', 1), chat('b', 1)], [message('1', 'a')]);
  await other.removeChat('a');
  await one.put([], [message('1', 'a'), message('2', 'b')]);
  expect(await one.messages('a')).toEqual([]);
  expect(await one.messages('b')).toHaveLength(1);
});

it('reads stored and new chats if a store is full', async () => {
  const base = new MemoryStore();
  await base.put([chat('a', 1), chat('b', 2)], [message('1', 'a')]);
  const store = new OverlayStore(base);
  await store.put([{ ...chat('a', 5), title: 'changed' }], [message('2', 'a')]);
  expect((await store.chats()).map((one) => one.title)).toEqual(['changed', 'b']);
  expect((await store.messages('a')).map((one) => one.id)).toEqual(['1', '2']);
  expect(await base.messages('a')).toHaveLength(1);
  await base.putDraft('b', 'an old draft');
  expect(await store.draft('b')).toBe('an old draft');
  await store.putDraft('b', '');
  expect(await store.draft('b')).toBe('');
  await store.removeChat('a');
  expect(await store.messages('a')).toEqual([]);
});

it('moves new rows into a store that has room again', async () => {
  let isFull = true;
  class Small extends MemoryStore {
    override put(chats: Chat[], messages: Message[]): Promise<void> {
      return isFull ? Promise.reject(new StorageFull()) : super.put(chats, messages);
    }
  }
  const base = new Small();
  const store = new OverlayStore(base);
  await store.put([chat('a', 1)], [message('1', 'a')]);
  await store.put([], [message('2', 'elsewhere')]);
  await store.putDraft('a', 'half');
  await expect(store.settle()).rejects.toThrow(StorageFull);
  expect(await base.chats()).toEqual([]);
  isFull = false;
  const late = store.settle();
  await store.put([chat('b', 2)], []); // while it moves
  await late;
  await store.put([chat('c', 3)], []);
  expect((await base.chats()).map((one) => one.id)).toEqual(['c', 'b', 'a']);
  expect((await base.messages('elsewhere')).map((one) => one.id)).toEqual(['2']);
  expect(await base.draft('a')).toBe('half');
  expect(await store.chats()).toHaveLength(3);
});

it('shows what is known of a store that is lost', async () => {
  class Lost extends MemoryStore {
    override chats = () => Promise.reject(new Error('lost'));
    override messages = () => Promise.reject(new Error('lost'));
  }
  const store = new OverlayStore(new Lost(), { chats: [chat('a', 1)], messages: [message('1', 'a')] });
  await store.put([chat('b', 2)], [message('2', 'a')]);
  expect((await store.chats()).map((one) => one.id)).toEqual(['b', 'a']);
  expect((await store.messages('a')).map((one) => one.id)).toEqual(['1', '2']);
  await expect(store.messages('other')).rejects.toThrow('lost');
});

it('opens the database again if the browser has closed it', async () => {
  const opened: IDBDatabase[] = [];
  const transaction = IDBDatabase.prototype.transaction;
  IDBDatabase.prototype.transaction = function (...all) {
    opened.push(this);
    return transaction.apply(this, all);
  };
  const store = await openStore('closed');
  await store.put([chat('a', 1)], []);
  opened[0]?.close();
  await store.put([chat('b', 2)], []);
  opened[1]?.close();
  expect(await store.chats()).toHaveLength(2);
  IDBDatabase.prototype.transaction = transaction;
});

it('uses memory if the browser has no database', async () => {
  const kept = globalThis.indexedDB;
  Object.defineProperty(globalThis, 'indexedDB', { value: { open: () => { throw new Error('forbidden'); } }, configurable: true });
  expect((await openStore('other')).isLasting).toBe(false);
  Object.defineProperty(globalThis, 'indexedDB', { value: kept, configurable: true });
});
