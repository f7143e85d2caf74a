// The shared state of the page: the route (#/...), the chats, the models, the running answers and
// the notices. There is one object; components read it.
import { SvelteMap } from 'svelte/reactivity';
import { Answer } from './answer.svelte';
import { Failure, json, messageOf } from './api';
import { newId } from './ids';
import { say } from './language';
import { InOrder } from './order';
import { bodyOf } from './request';
import { MemoryStore, OverlayStore, StorageFull, listed, openStore, type Store } from './store';
import { Tabs } from './tabs';
import { childrenOf, latestLeaf, pathTo, titleFrom, treeOf, type Tree } from './tree';
import type { Chat, LoadedRow, Message, ModelRow } from './types';

export interface Settings {
  theme: 'system' | 'light' | 'dark';
  enterSends: boolean;
  model: string; // default of new chats
}

const SETTINGS_KEY = 'billow-settings';

function readSettings(): Settings {
  const defaults: Settings = { theme: 'system', enterSends: true, model: '' };
  try {
    const kept = JSON.parse(localStorage.getItem(SETTINGS_KEY) ?? '{}') as Partial<Settings>;
    return {
      theme: kept.theme === 'light' || kept.theme === 'dark' ? kept.theme : 'system',
      enterSends: kept.enterSends !== false,
      model: typeof kept.model === 'string' ? kept.model : '',
    };
  } catch {
    return defaults;
  }
}

export interface Way {
  view: string; // "chat", "models", ...
  id: string;
}

function readWay(): Way {
  const [view = '', id = ''] = location.hash.replace(/^#\/?/, '').split('/');
  try {
    return { view: view || 'chat', id: decodeURIComponent(id) };
  } catch {
    return { view: view || 'chat', id: '' };
  }
}

export interface ServerInfo {
  version: string;
  node: string;
  read_only: boolean;
  on_network: boolean;
  api_keys: boolean; // requests need a key
}

// Returns a handler that gives `value` if the API key of the page lacks the role for a request.
function unlessForbidden<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (error instanceof Failure && error.status === 403) return value;
    throw error;
  };
}

class App {
  way = $state.raw<Way>(readWay());
  settings = $state<Settings>(readSettings());
  chats = $state.raw<Chat[]>([]);
  tree = $state.raw<Tree>(new Map()); // tree of the visible chat
  treeOf = $state('');
  models = $state.raw<ModelRow[]>([]);
  loaded = $state.raw<LoadedRow[]>([]);
  info = $state.raw<ServerInfo | null>(null);
  haveModels = $state(false); // the list has been loaded
  isUp = $state(true);
  isDark = $state(false); // the dark theme is active
  isReady = $state(false); // the chats have been loaded
  notice = $state('');
  isLasting = $state(true);
  announcement = $state('');
  answers = new SvelteMap<string, Answer>(); // by id of the message
  elsewhere = $state.raw<ReadonlySet<string>>(new Set()); // answers that other tabs are writing
  #store: Store = new MemoryStore();
  #setReady: () => void = () => undefined;
  #ready = new Promise<void>((resolve) => (this.#setReady = resolve)); // when #store and chats are the stored ones
  #asking: Promise<void> = Promise.resolve(); // until all questions are stored and their answers run
  #opening = ''; // the chat that open() was called for last
  #tabs: Tabs | undefined;
  #version = 0; // counts the changes of chats and messages by this tab
  #lists = new InOrder<[ModelRow[], LoadedRow[]]>(([models, loaded]) => {
    this.models = models;
    this.loaded = loaded;
    this.haveModels = true;
  });
  #noticeTimer = 0;
  #warning = ''; // returns after other notices
  #down = 0;

  async start(): Promise<void> {
    addEventListener('hashchange', () => (this.way = readWay()));
    void this.refreshModels();
    void json<ServerInfo>('GET', '/api/server').then((info) => (this.info = info)).catch(() => undefined);
    this.#store = await openStore('billow', () => this.warn(say.errors.otherTab));
    this.isLasting = this.#store.isLasting;
    if (!this.isLasting) this.warn(say.errors.storageOff);
    // Before the chats are read: another tab may change them meanwhile.
    this.#tabs = new Tabs(newId(), () => void this.#ready.then(() => this.#reload()), (ids) => (this.elsewhere = ids));
    try {
      this.chats = await this.#store.chats();
    } catch (error) {
      this.#store = new MemoryStore();
      this.isLasting = false;
      this.warn(say.errors.storageBroken(messageOf(error)));
    }
    addEventListener('pagehide', () => this.#tabs?.writing([]));
    addEventListener('pageshow', (event) => event.persisted && this.#tabs?.writing([...this.answers.keys()]));
    this.#setReady();
    this.isReady = true;
  }

  // Another tab has changed the stored chats. An answer of this tab keeps its text: rows show the
  // text of the running answer.
  async #reload(): Promise<void> {
    const id = this.treeOf;
    const version = this.#version;
    let chats: Chat[];
    let rows: Message[];
    try {
      [chats, rows] = await Promise.all([this.#store.chats(), id ? this.#store.messages(id) : []]);
    } catch {
      return; // the page keeps what it has
    }
    if (this.#version !== version) return this.#reload(); // what was read lacks a change of this tab
    this.chats = chats;
    if (id && this.treeOf === id) this.tree = treeOf(rows);
    for (const answer of this.answers.values()) if (!this.find(answer.snapshot().chat)) answer.stop();
  }

  go(way: string): void {
    location.hash = way;
  }

  set<K extends keyof Settings>(name: K, value: Settings[K]): void {
    this.settings[name] = value;
    try {
      localStorage.setItem(SETTINGS_KEY, JSON.stringify(this.settings));
    } catch {
      // The setting is valid until the page closes.
    }
  }

  // Shows a line at the top; `ms` 0: until the next line.
  notify(text: string, ms = 6000): void {
    this.notice = text;
    clearTimeout(this.#noticeTimer);
    if (ms > 0) this.#noticeTimer = window.setTimeout(() => (this.notice = this.#warning), ms);
  }
  // Shows a line until the user closes it. Other lines hide it only while they are visible.
  warn(text: string): void {
    this.#warning = text;
    this.notify(text, 0);
  }
  // Closes the line that is visible.
  dismiss(): void {
    if (this.notice === this.#warning) this.#warning = '';
    this.notify(this.#warning, 0);
  }
  announce = (text: string): void => {
    this.announcement = text;
  };
  fail(error: unknown): void {
    if (error instanceof Failure && error.status === 0) return this.serverGone();
    this.notify(error instanceof StorageFull ? say.errors.storageFull : messageOf(error), 10_000);
  }

  // The server does not respond: retries with growing intervals until it does.
  serverGone(): void {
    if (!this.isUp) return;
    this.isUp = false;
    this.#down = 0;
    const again = async (): Promise<void> => {
      try {
        await json('GET', '/api/version');
        this.isUp = true;
        this.notify(say.errors.back, 3000);
        await this.refreshModels();
      } catch {
        this.#down = Math.min(this.#down + 1, 5);
        setTimeout(() => void again(), 500 * 2 ** this.#down);
      }
    };
    setTimeout(() => void again(), 500);
  }

  async refreshModels(): Promise<void> {
    const show = this.#lists.ask();
    try {
      const [tags, ps] = await Promise.all([
        json<{ models: ModelRow[] }>('GET', '/api/tags'),
        json<{ models: LoadedRow[] }>('GET', '/api/ps').catch(unlessForbidden({ models: [] })),
      ]);
      show([tags.models, ps.models]);
    } catch (error) {
      this.fail(error);
    }
  }

  get writers(): ModelRow[] {
    return this.models.filter((model) => !model.capabilities || model.capabilities.includes('completion'));
  }
  can(model: string, capability: string): boolean {
    return this.models.find((row) => row.name === model)?.capabilities?.includes(capability) ?? false;
  }

  // Chats.

  // A chat without models answers with these.
  get defaultModels(): string[] {
    const first = this.writers.find((model) => model.name === this.settings.model) ?? this.writers[0];
    return first ? [first.name] : [];
  }
  newChat(): Chat {
    const now = Date.now();
    return { id: newId(), title: '', models: [], system: '', params: {}, leaf: '', pinned: false, created: now, updated: now };
  }
  find(id: string): Chat | undefined {
    return this.chats.find((chat) => chat.id === id);
  }
  // Shows the messages of a chat; of none for ''. Does nothing if another chat is opened meanwhile.
  async open(id: string): Promise<void> {
    this.#opening = id;
    let rows: Message[];
    try {
      rows = id ? await this.#store.messages(id) : [];
    } catch (error) {
      throw new Error(say.errors.chatBroken(messageOf(error)));
    }
    if (this.#opening !== id) return;
    this.treeOf = id;
    this.tree = treeOf(rows);
  }
  // Stores chats and messages, then shows them. A change of chats alone is shown before it is stored,
  // and before this function returns: what the user does next must see it.
  async put(chats: Chat[], messages: Message[]): Promise<void> {
    if (!this.isReady) await this.#ready;
    if (messages.length === 0) this.#show(chats);
    const store = this.#store;
    try {
      await store.put(chats, messages);
    } catch (error) {
      const isFull = error instanceof StorageFull;
      const known = isFull ? undefined : { chats: this.chats, messages: [...this.tree.values()] };
      if (this.#store === store) this.#store = new OverlayStore(store, known);
      await this.#store.put(chats, messages);
      this.isLasting = false;
      this.warn(isFull ? say.errors.storageFull : say.errors.storageLost);
    }
    if (messages.length > 0) this.#show(chats);
    this.#added(messages);
  }
  // Adds imported chats. Unlike put(), adds nothing if there is no room.
  async add(chats: Chat[], messages: Message[]): Promise<void> {
    await this.#ready;
    await this.#store.put(chats, messages);
    this.#show(chats);
    this.#added(messages);
  }
  // Changes a chat as it is now: another tab may have changed it since it was shown. A question that
  // is being stored changes it, too, or adds it. Does nothing if there is no such chat.
  async change(id: string, part: Partial<Chat>): Promise<void> {
    await this.#asking;
    const chat = this.find(id);
    if (chat) await this.put([{ ...chat, ...part }], []);
  }
  #show(chats: Chat[]): void {
    if (chats.length === 0) return;
    const ids = new Set(chats.map((chat) => chat.id));
    this.chats = listed([...chats, ...this.chats.filter((other) => !ids.has(other.id))]);
    this.#version += 1;
  }
  #added(messages: Message[]): void {
    this.#version += 1;
    const own = messages.filter((message) => message.chat === this.treeOf);
    if (own.length > 0) this.tree = treeOf([...new Map([...this.tree, ...own.map((message) => [message.id, message] as const)]).values()]);
    this.#tabs?.changed();
  }
  async removeChat(id: string): Promise<void> {
    await this.#ready;
    await this.#asking; // the answers must run, so that they are stopped
    // First leaves the list: an answer that ends is saved only if its chat is there.
    this.chats = this.chats.filter((chat) => chat.id !== id);
    this.#version += 1;
    for (const answer of this.answersOf(id)) answer.stop();
    try {
      await this.#store.removeChat(id);
    } catch (error) {
      this.chats = await this.#store.chats().catch(() => this.chats);
      return this.fail(error);
    }
    await this.#settle();
    this.#tabs?.changed();
    if (this.way.id === id) this.go('/chat');
  }
  // A deleted chat leaves room: stores what has been kept in memory.
  async #settle(): Promise<void> {
    if (this.isLasting || !(this.#store instanceof OverlayStore)) return;
    try {
      await this.#store.settle();
    } catch {
      return; // the room is not enough
    }
    this.isLasting = this.#store.isLasting;
    if (!this.isLasting || ![say.errors.storageFull, say.errors.storageLost].includes(this.#warning)) return;
    if (this.notice === this.#warning) this.dismiss();
    else this.#warning = '';
  }
  allMessages(chat: string): Promise<Message[]> {
    return this.#store.messages(chat);
  }
  async draft(chat: string): Promise<string> {
    await this.#ready;
    return this.#store.draft(chat).catch(() => '');
  }
  putDraft(chat: string, text: string): void {
    void this.#ready.then(() => this.#store.putDraft(chat, text)).catch(() => undefined);
  }

  answersOf(chat: string): Answer[] {
    return [...this.answers].filter(([, answer]) => answer.snapshot().chat === chat).map(([, answer]) => answer);
  }

  // Adds a question, or the results of tools, after `parent`, and requests answers. Returns whether
  // the messages are stored; the user knows the reason if not.
  send(chat: Chat, parent: string, messages: (Pick<Message, 'text' | 'role'> & Partial<Message>)[]): Promise<boolean> {
    const now = Date.now();
    const added: Message[] = [];
    for (const message of messages)
      added.push({ ...message, id: newId(), chat: chat.id, parent: added[added.length - 1]?.id ?? parent, state: 'done', created: now + added.length });
    const title = chat.title || titleFrom(messages[0]?.text ?? '') || say.chats.untitled;
    return this.#answer({ ...chat, title }, added, added[added.length - 1]?.id ?? parent);
  }

  // Requests another answer to the messages up to `parent`.
  answerAgain(chat: Chat, parent: string): Promise<boolean> {
    return this.#answer(chat, [], parent);
  }

  #answer(chat: Chat, before: Message[], parent: string): Promise<boolean> {
    const asked = this.#request(chat, before, parent).catch((error: unknown) => {
      this.fail(error);
      return false;
    });
    this.#asking = Promise.all([this.#asking, asked]).then(() => undefined);
    return asked;
  }

  async #request(chat: Chat, before: Message[], parent: string): Promise<boolean> {
    const from = this.way;
    const now = Date.now() + before.length;
    const group = chat.models.length > 1 ? newId() : undefined;
    const made: Message[] = chat.models.map((model, index) => ({
      id: newId(),
      chat: chat.id,
      parent,
      role: 'assistant',
      text: '',
      model,
      state: 'partial',
      created: now + 1 + index,
      ...(group ? { group } : {}),
    }));
    const first = made[0];
    if (!first) {
      this.notify(say.errors.noModel);
      return false;
    }
    const next: Chat = { ...chat, leaf: first.id, updated: now };
    if (this.treeOf !== chat.id) await this.open(chat.id);
    const earlier = before[0]?.parent ?? parent;
    // Another tab may have added the messages before this one.
    const isKnown = this.treeOf === chat.id && (earlier === '' || this.tree.has(earlier));
    const rows = isKnown ? [...this.tree.values()] : await this.#store.messages(chat.id);
    const path = pathTo(treeOf([...rows, ...before]), parent);
    const bodies = this.#bodies(next, chat.models, path);
    if (!bodies) return false;
    await this.put([next], [...before, ...made]);
    // The user may have gone elsewhere meanwhile.
    if (this.way === from && from.id !== chat.id) this.go(`/chat/${chat.id}`);
    if (chat.models[0]) this.set('model', chat.models[0]);
    made.forEach((message, index) => this.#run(message, bodies[index] ?? {}, chat.models[index] ?? ''));
    return true;
  }

  // Returns nothing, with a notice, if the schema or the tools of the chat are not JSON.
  #bodies(chat: Chat, models: string[], path: Message[]): Record<string, unknown>[] | undefined {
    try {
      return models.map((model) => bodyOf(chat, model, path));
    } catch (error) {
      this.notify(say.params.wrongJson(messageOf(error)), 0);
      return undefined;
    }
  }

  // Continues an incomplete answer. The server renders the conversation with the model's template.
  // The rendered text plus the answer so far is sent as a raw prompt.
  continueAnswer(chat: Chat, message: Message): void {
    const model = message.model ?? chat.models[0] ?? '';
    const before = pathTo(this.tree, message.parent);
    const body = this.#bodies(chat, [model], before)?.[0];
    if (!body) return;
    const asked = { ...body, stream: false, _debug_render_only: true };
    const { options, keep_alive } = asked as { options?: unknown; keep_alive?: unknown };
    const prepare = async (signal: AbortSignal) => {
      const shown = await json<{ _debug_info: { rendered_template: string } }>('POST', '/api/chat', asked, { signal });
      const prompt = shown._debug_info.rendered_template + message.text;
      return { model, prompt, raw: true, stream: true, live_events: true, options, ...(keep_alive === undefined ? {} : { keep_alive }) };
    };
    this.#run(message, prepare, model);
  }

  #run(message: Message, body: Record<string, unknown> | ((signal: AbortSignal) => Promise<Record<string, unknown>>), model: string): void {
    const answer = new Answer({
      message,
      ...(typeof body === 'function' ? { path: '/api/generate', body } : { path: '/api/chat', body: () => Promise.resolve(body) }),
      model,
      announce: this.announce,
      // Does not restore a chat that has been deleted.
      save: async (whole) => {
        if (this.find(whole.chat)) await this.put([], [whole]);
      },
    });
    this.answers.set(message.id, answer);
    this.#tabs?.writing([...this.answers.keys()]);
    void answer.ended.then(async () => {
      this.answers.delete(message.id);
      this.#tabs?.writing([...this.answers.keys()]);
      const kept = this.tree.get(message.id);
      if (kept?.error === say.errors.network || kept?.error === say.errors.lost) this.serverGone();
      else void this.refreshModels();
    });
  }

  // Creates a chat with copies of the messages up to this one.
  async fork(chat: Chat, message: Message): Promise<void> {
    const now = Date.now();
    const made: Chat = { ...chat, id: newId(), title: say.chat.forkOf(chat.title), pinned: false, created: now, updated: now, leaf: '' };
    const copies: Message[] = [];
    for (const row of pathTo(this.tree, message.id)) {
      const { group: _, ...plain } = row;
      copies.push({ ...plain, id: newId(), chat: made.id, parent: copies[copies.length - 1]?.id ?? '' });
    }
    made.leaf = copies[copies.length - 1]?.id ?? '';
    await this.put([made], copies);
    this.go(`/chat/${made.id}`);
  }

  // Shows another version of a message, with the messages after it.
  show(chat: Chat, message: Message): Promise<void> {
    return this.change(chat.id, { leaf: latestLeaf(this.tree, message.id) });
  }

  siblings(message: Message): Message[] {
    return message.group ? childrenOf(this.tree, message.parent).filter((other) => other.group === message.group) : [message];
  }
}

export const app = new App();
