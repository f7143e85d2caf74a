// Requests to the server with fetch. Each error is a Failure with a message of one line.
import { apiKey, otherKey } from './key';

export class Failure extends Error {
  constructor(
    readonly status: number, // 0: no response
    message: string,
    readonly retryAfter = 0, // seconds; 0: not given
  ) {
    super(message);
  }
}

// The page is at PREFIX/ui/, so the routes are one level above it.
export function url(path: string): string {
  return new URL(`..${path}`, document.baseURI).href;
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

// The error message in a response body of any form.
export function errorText(status: number, body: string): string {
  try {
    const json: unknown = JSON.parse(body);
    if (json && typeof json === 'object' && 'error' in json) {
      const error = (json as { error: unknown }).error;
      if (typeof error === 'string') return error;
      if (error && typeof error === 'object' && 'message' in error) return String((error as { message: unknown }).message);
    }
  } catch {
    // Plain text.
  }
  return body.trim().slice(0, 300) || `the server answered ${status}`;
}

// Sends the API key of the page, if it has one. If the server wants another key, asks the user for
// it and sends the request again.
export async function ask(method: string, path: string, body?: unknown, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  const headers = new Headers(init.headers);
  const isRaw = body instanceof Blob;
  const key = apiKey();
  if (key) headers.set('Authorization', `Bearer ${key}`);
  if (body !== undefined && !isRaw) headers.set('Content-Type', 'application/json');
  try {
    response = await fetch(url(path), {
      cache: 'no-store',
      ...init,
      method,
      headers,
      ...(body === undefined ? {} : { body: isRaw ? body : JSON.stringify(body) }),
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Failure(0, 'the server cannot be reached');
  }
  if (response.status === 401 && response.headers.has('WWW-Authenticate') && (await otherKey(key))) return ask(method, path, body, init);
  if (!response.ok) {
    const text = await response.text().catch(() => '');
    throw new Failure(response.status, errorText(response.status, text), Number(response.headers.get('Retry-After')) || 0);
  }
  return response;
}

export async function json<T>(method: string, path: string, body?: unknown, init?: RequestInit): Promise<T> {
  return (await (await ask(method, path, body, init)).json()) as T;
}

// Yields the lines of an NDJSON response as they arrive. Throws Failure(0) if the connection
// breaks.
export async function* lines(response: Response): AsyncGenerator<Record<string, unknown>> {
  const reader = response.body?.getReader();
  if (!reader) return;
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      let end = rest.indexOf('\n');
      while (end >= 0) {
        const line = rest.slice(0, end).trim();
        rest = rest.slice(end + 1);
        if (line) yield parsed(line);
        end = rest.indexOf('\n');
      }
      if (done) break;
    }
    if (rest.trim()) yield parsed(rest);
  } catch (error) {
    if (isAbort(error) || error instanceof Failure) throw error;
    throw new Failure(0, 'the connection was lost');
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function parsed(line: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw new Failure(0, 'the connection was lost');
  }
  if (!value || typeof value !== 'object') throw new Failure(0, 'the server sent a line that is not an object');
  return value as Record<string, unknown>;
}

// Waits. If `signal` is aborted, throws AbortError.
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(new DOMException('stopped', 'AbortError'));
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(new DOMException('stopped', 'AbortError'));
    });
  });
}
