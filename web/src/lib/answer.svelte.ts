// One answer in flight. It is independent of the components, so that it continues while another
// view is shown. Text is collected as it arrives and drawn once per frame.
import { Failure, ask, isAbort, json, lines, messageOf, pause } from './api';
import { newId } from './ids';
import { say } from './language';
import { TokenCount } from './pieces';
import { modelOf, olderOf, placeOf, type Place } from './queue';
import type { LiveEvent, MemoryState, Message, Stats, ToolCall, TraceFull, TraceHead } from './types';
import { progressOf, type Progress } from './waterfall';

const MAX_TRIES = 5; // while the server is busy
const POLL_MS = 400;
const MAX_OLDER = 32; // requests whose models are looked up for the place in the queue

export interface Work {
  message: Message; // receives the answer; its existing text stays
  path: string; // /api/chat or /api/generate
  body: (signal: AbortSignal) => Promise<Record<string, unknown>>;
  model: string;
  save: (message: Message) => Promise<void>;
  announce: (text: string) => void;
}

export class Answer {
  text = $state('');
  thinking = $state('');
  tools = $state.raw<ToolCall[]>([]);
  phase = $state<Progress['phase'] | 'busy' | 'done'>('sending');
  progress = $state.raw<Progress>({ phase: 'sending' });
  busySeconds = $state(0);
  loadRatio = $state(0); // progress of loading the model, from 0 to 1
  place = $state.raw<Place | undefined>(); // while it waits in the queue
  held = $state(0); // tokens in the context
  speed = $state(0); // tokens per second over the last seconds
  events = $state.raw<LiveEvent[]>([]);
  context = $state(0);
  shortened = $state('');
  requestId = `web-${newId()}`; // of the latest attempt
  readonly ended: Promise<void>;

  #text: string;
  #tokens = new TokenCount();
  #thinking = '';
  #frame = 0;
  #stop = new AbortController();
  #started = performance.now();
  #firstMs = 0;
  #thinkingSince = 0;
  #thinkingMs = 0;
  #times: number[] = [];
  #models = new Map<string, string>(); // of other requests, by id
  #saved = 0;
  #signs = 0;

  constructor(private readonly work: Work) {
    this.#text = work.message.text;
    this.text = this.#text;
    this.thinking = this.#thinking = work.message.thinking ?? '';
    this.ended = this.#run();
  }

  get model(): string {
    return this.work.model;
  }

  stop(): void {
    this.#stop.abort();
  }

  // The message to store at this moment.
  snapshot(): Message {
    return {
      ...this.work.message,
      text: this.#text,
      ...(this.#thinking ? { thinking: this.#thinking } : {}),
      ...(this.#thinkingMs ? { thinkingMs: this.#thinkingMs } : {}),
      ...(this.tools.length ? { tools: this.tools } : {}),
      state: 'partial',
    };
  }

  async #run(): Promise<void> {
    const { work } = this;
    let ending: Partial<Message> = { state: 'done' };
    let stats: Stats = { requestId: this.requestId, events: [] };
    this.#signs = window.setInterval(() => this.phase !== 'writing' && work.announce(say.phase.still), 7000);
    const onHide = () => void work.save(this.snapshot()).catch(() => undefined);
    addEventListener('pagehide', onHide);
    try {
      const response = await this.#ask();
      stats.requestId = this.requestId;
      stats = await this.#read(response, stats);
    } catch (error) {
      if (isAbort(error)) {
        ending = { state: 'stopped' };
      } else {
        const isLost = error instanceof Failure && error.status === 0 && this.#firstMs > 0;
        ending = { state: 'error', error: isLost ? say.errors.lost : error instanceof Failure && error.status === 0 ? say.errors.network : messageOf(error) };
      }
    }
    clearInterval(this.#signs);
    removeEventListener('pagehide', onHide);
    cancelAnimationFrame(this.#frame);
    this.#show();
    stats.events = this.events;
    if (this.context) stats.context = this.context;
    if (this.shortened) stats.shortened = this.shortened;
    if (this.#firstMs) stats.firstMs = this.#firstMs;
    if (stats.prompt === undefined && this.progress.prompt !== undefined) stats.prompt = this.progress.prompt;
    if (stats.written === undefined && this.#tokens.written > 0) {
      stats.written = this.#tokens.written;
      stats.held = this.#tokens.held;
      stats.isAbout = true;
    }
    const whole: Message = { ...this.snapshot(), ...ending, state: ending.state ?? 'done', stats };
    if (whole.state !== 'error') delete whole.error;
    await work.save(whole).catch(() => undefined);
    work.announce(
      whole.state === 'error'
        ? say.phase.failed(whole.error ?? '')
        : whole.state === 'stopped'
          ? say.chat.stopped
          : say.phase.ended(work.model, String(stats.written ?? 0)),
    );
    this.phase = 'done';
  }

  // Sends the request. Retries if the server is busy and sends Retry-After.
  async #ask(): Promise<Response> {
    for (let attempt = 1; ; attempt += 1) {
      const polling = new AbortController();
      if (attempt > 1) this.requestId = `web-${newId()}`; // the trace of the first attempt has ended
      try {
        this.phase = 'sending';
        const body = await this.work.body(this.#stop.signal);
        void this.#watch(polling.signal);
        return await ask('POST', this.work.path, body, {
          signal: this.#stop.signal,
          headers: { 'X-Request-Id': this.requestId },
        });
      } catch (error) {
        const isBusy = error instanceof Failure && error.status === 503 && error.retryAfter > 0;
        if (!isBusy || attempt === MAX_TRIES) throw error;
        polling.abort(); // the trace of this attempt has ended
        this.phase = 'busy';
        for (let left = Math.min(30, error.retryAfter * 2 ** (attempt - 1)); left > 0; left -= 1) {
          this.busySeconds = Math.ceil(left);
          await pause(1000, this.#stop.signal);
        }
      } finally {
        polling.abort();
      }
    }
  }

  // Until the first token, polls the trace to show what the server does.
  async #watch(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        await pause(POLL_MS, signal);
        const trace = await json<TraceFull>('GET', `/api/trace/${this.requestId}`, undefined, { signal });
        if (signal.aborted) return;
        this.progress = progressOf(trace.spans);
        this.phase = this.progress.phase;
        if (this.progress.context) this.context = this.progress.context;
        // A request on a loaded model can wait for its turn, too.
        const isIdle = this.phase === 'loading' || this.phase === 'waiting' || (this.phase === 'reading' && !this.progress.read);
        if (isIdle) await this.#watchQueue(signal);
      }
    } catch {
      // The polling was aborted, or there is no trace. The response itself reports errors.
    }
  }

  async #watchQueue(signal: AbortSignal): Promise<void> {
    const memory = await json<MemoryState>('GET', '/api/memory', undefined, { signal });
    const row = memory.models.find((one) => one.name === this.work.model);
    this.loadRatio = row?.load_ratio ?? 0;
    const isQueued = row && row.waiting > 0 && row.state !== 'loading';
    this.place = placeOf(memory, this.work.model, isQueued ? await this.#older(signal) : undefined);
  }

  // Returns the number of older requests of the model that have not ended; undefined if unknown.
  async #older(signal: AbortSignal): Promise<number | undefined> {
    const { traces } = await json<{ traces: TraceHead[] }>('GET', '/api/trace', undefined, { signal });
    const older = olderOf(traces, this.requestId);
    if (!older || older.length > MAX_OLDER) return undefined;
    for (const { id, model } of older) {
      if (this.#models.get(id)) continue;
      // A trace that ends now may be gone.
      const found = model ?? (await json<TraceFull>('GET', `/api/trace/${encodeURIComponent(id)}`, undefined, { signal }).then(modelOf, () => ''));
      this.#models.set(id, found);
    }
    return older.filter(({ id }) => this.#models.get(id) === this.work.model).length;
  }

  // Reads the size of the prompt from the trace, if the first token came before the first poll.
  async #learn(): Promise<void> {
    try {
      if (this.progress.prompt === undefined) this.progress = progressOf((await json<TraceFull>('GET', `/api/trace/${this.requestId}`)).spans);
      this.#tokens.prompt = this.progress.prompt ?? 0;
    } catch {
      // Without a trace, the gauge is updated at the end.
    }
  }

  async #read(response: Response, stats: Stats): Promise<Stats> {
    this.context = Number(response.headers.get('X-Billow-Context')) || this.context;
    this.shortened = response.headers.get('X-Billow-Shortened') ?? '';
    let isWhole = false;
    // The headers may come long before the first token.
    const polling = new AbortController();
    void this.#watch(polling.signal);
    try {
      for await (const line of lines(response)) {
        if (typeof line['error'] === 'string') throw new Failure(500, line['error']);
        // /api/generate sends the text, /api/chat sends a message.
        const message = (line['message'] ?? { content: line['response'] }) as { content?: string; thinking?: string; tool_calls?: { function: ToolCall }[] };
        this.#take(message);
        if (Array.isArray(line['events'])) this.#note(line['events'] as LiveEvent[]);
        if (!polling.signal.aborted && (message.content || message.thinking || message.tool_calls)) {
          polling.abort();
          this.#firstMs = performance.now() - this.#started;
          this.phase = 'writing';
          void this.#learn();
          this.work.announce(say.phase.started(this.work.model));
        }
        if (line['done'] === true) {
          isWhole = true;
          const number = (name: string) => (typeof line[name] === 'number' ? (line[name] as number) : undefined);
          const ms = (name: string) => (number(name) === undefined ? undefined : (number(name) as number) / 1e6);
          stats = {
            ...stats,
            ...defined({
              prompt: number('prompt_eval_count'),
              cached: number('prompt_cached_count') ?? 0,
              written: number('eval_count'),
              promptMs: ms('prompt_eval_duration'),
              decodeMs: ms('eval_duration'),
              reason: typeof line['done_reason'] === 'string' ? line['done_reason'] : undefined,
            }),
          };
        }
      }
    } finally {
      polling.abort();
    }
    if (!isWhole) throw new Failure(0, say.errors.lost);
    return stats;
  }

  #take(message: { content?: string; thinking?: string; tool_calls?: { function: ToolCall }[] }): void {
    const now = performance.now();
    if (message.thinking) {
      this.#thinkingSince ||= now;
      this.#thinking += message.thinking;
      this.#thinkingMs = now - this.#thinkingSince;
    }
    if (message.content) this.#text += message.content;
    if (message.tool_calls)
      this.tools = [...this.tools, ...message.tool_calls.map((call) => ({ name: call.function.name, arguments: call.function.arguments }))];
    if (message.content || message.thinking) {
      this.#times.push(now);
      while (this.#times.length > 0 && (this.#times[0] ?? now) < now - 3000) this.#times.shift();
    }
    this.#frame ||= requestAnimationFrame(() => this.#show());
    // A background tab has no frames, so the text is saved here.
    if (now - this.#saved > 1000) {
      this.#saved = now;
      void this.work.save(this.snapshot()).catch(() => undefined);
    }
    if (message.content || message.thinking) this.#tokens.piece();
  }

  #note(events: LiveEvent[]): void {
    for (const event of events) this.#tokens.event(event);
    this.events = [...this.events, ...events.map((event) => ({ ...event, at: this.#text.length }))];
  }

  #show(): void {
    this.#frame = 0;
    this.text = this.#text;
    this.thinking = this.#thinking;
    this.held = this.#tokens.held;
    const first = this.#times[0];
    const last = this.#times[this.#times.length - 1];
    if (first !== undefined && last !== undefined && last > first) this.speed = ((this.#times.length - 1) * 1000 * this.#tokens.perPiece) / (last - first);
  }
}

function defined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined)) as { [K in keyof T]: Exclude<T[K], undefined> };
}
