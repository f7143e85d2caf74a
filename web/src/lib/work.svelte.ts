// Long jobs on models: pulls and uploads. They continue while another view is shown.
import { app } from './app.svelte';
import { Failure, ask, isAbort, lines, messageOf } from './api';
import { say } from './language';
import { Sha256 } from './sha256';

export class Job {
  name = $state('');
  status = $state('');
  total = $state(0);
  completed = $state(0);
  error = $state('');
  done = $state(false);
  #stop = new AbortController();

  constructor(name: string) {
    this.name = name;
  }
  get signal(): AbortSignal {
    return this.#stop.signal;
  }
  cancel(): void {
    this.#stop.abort();
  }
}

class Jobs {
  all = $state<Job[]>([]);

  remove(job: Job): void {
    this.all = this.all.filter((other) => other !== job);
  }

  pull(name: string, insecure: boolean): Promise<void> {
    return this.#run(name, say.models.pulled(name), say.models.cancelled(name), async (job) => {
      const layers = new Map<string, { total: number; completed: number }>();
      const response = await ask('POST', '/api/pull', { model: name, ...(insecure ? { insecure: true } : {}) }, { signal: job.signal });
      await follow(response, job, layers, true);
    });
  }

  // Creates a model from a GGUF file: computes the digest, uploads the file, then creates the
  // model.
  add(name: string, file: File): Promise<void> {
    return this.#run(name, say.models.made(name), say.chat.stopped, async (job) => {
      job.status = say.models.hashing;
      job.total = file.size;
      const hash = new Sha256();
      const STEP = 4 << 20;
      for (let at = 0; at < file.size; at += STEP) {
        if (job.signal.aborted) throw new DOMException('stopped', 'AbortError');
        hash.update(new Uint8Array(await file.slice(at, at + STEP).arrayBuffer()));
        job.completed = Math.min(file.size, at + STEP);
        await new Promise((resolve) => setTimeout(resolve));
      }
      const digest = `sha256:${hash.hex()}`;
      job.status = say.models.uploading;
      job.total = 0;
      const isThere = await ask('HEAD', `/api/blobs/${digest}`, undefined, { signal: job.signal }).then(() => true, (error: unknown) => {
        if (error instanceof Failure && error.status === 404) return false;
        throw error;
      });
      if (!isThere) await ask('POST', `/api/blobs/${digest}`, file, { signal: job.signal });
      job.status = say.models.creating;
      const response = await ask('POST', '/api/create', { model: name, files: { [file.name]: digest } }, { signal: job.signal });
      await follow(response, job, new Map(), false);
    });
  }

  variant(name: string, from: string, system: string): Promise<void> {
    return this.#run(name, say.models.made(name), say.chat.stopped, async (job) => {
      job.status = say.models.creating;
      const response = await ask('POST', '/api/create', { model: name, from, ...(system ? { system } : {}) }, { signal: job.signal });
      await follow(response, job, new Map(), false);
    });
  }

  async #run(name: string, done: string, cancelled: string, work: (job: Job) => Promise<void>): Promise<void> {
    if (this.all.some((job) => job.name === name && !job.done && !job.error)) return;
    this.all = [...this.all.filter((job) => job.name !== name), new Job(name)];
    const job = this.all[this.all.length - 1];
    if (!job) return;
    try {
      await work(job);
      job.status = done;
      job.done = true;
      app.announce(done);
      await app.refreshModels();
    } catch (error) {
      if (isAbort(error)) {
        job.status = cancelled;
        job.done = true;
        app.announce(cancelled);
      } else {
        job.error = messageOf(error);
        app.announce(job.error);
        if (error instanceof Failure && error.status === 0) app.serverGone();
      }
    }
  }
}

async function follow(response: Response, job: Job, layers: Map<string, { total: number; completed: number }>, mustSucceed: boolean): Promise<void> {
  let last = '';
  for await (const line of lines(response)) {
    if (typeof line['error'] === 'string') throw new Failure(500, line['error']);
    last = String(line['status'] ?? '');
    job.status = last.replace(/^(pulling )([0-9a-f]{12})[0-9a-f]*$/, '$1$2');
    if (typeof line['total'] === 'number' && typeof line['digest'] === 'string')
      layers.set(line['digest'], { total: line['total'], completed: Number(line['completed'] ?? 0) });
    job.total = [...layers.values()].reduce((sum, layer) => sum + layer.total, 0);
    job.completed = [...layers.values()].reduce((sum, layer) => sum + layer.completed, 0);
  }
  if (mustSucceed && last !== 'success') throw new Failure(0, say.errors.lost);
}

export const jobs = new Jobs();
