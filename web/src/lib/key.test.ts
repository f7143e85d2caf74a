import { afterEach, describe, expect, it, vi } from 'vitest';
import { ask, Failure } from './api';
import { apiKey, keepKey, onKeyNeeded } from './key';

function serverWith(key: string) {
  return vi.fn((_url: string, init: RequestInit) => {
    const given = new Headers(init.headers).get('Authorization') ?? '';
    const isKnown = given === `Bearer ${key}`;
    const headers: Record<string, string> = isKnown ? {} : { 'WWW-Authenticate': 'Bearer realm="billow"' };
    return Promise.resolve(new Response(isKnown ? 'ok' : '{"error":"this server needs an API key"}', { status: isKnown ? 200 : 401, headers }));
  });
}

describe('API keys', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    keepKey('');
    onKeyNeeded(() => Promise.resolve(false));
  });

  function start(key: string) {
    const fetch = serverWith(key);
    vi.stubGlobal('fetch', fetch);
    vi.stubGlobal('document', { baseURI: 'http://localhost/ui/' });
    return fetch;
  }

  it('asks once for requests that are refused at the same time, and sends them again', async () => {
    start('right');
    const question = vi.fn((isWrong: boolean) => {
      keepKey(isWrong ? 'right' : 'wrong');
      return Promise.resolve(true);
    });
    onKeyNeeded(question);
    const answers = await Promise.all([ask('GET', '/api/tags'), ask('GET', '/api/version')]);
    expect(await Promise.all(answers.map((answer) => answer.text()))).toEqual(['ok', 'ok']);
    expect(question.mock.calls).toEqual([[false], [true]]);
    expect(apiKey()).toBe('right');
  });

  it('fails if the user gives no key', async () => {
    const fetch = start('right');
    await expect(ask('GET', '/api/tags')).rejects.toEqual(new Failure(401, 'this server needs an API key'));
    expect(fetch).toHaveBeenCalledTimes(1);
  });

  it('sends no header without a key', async () => {
    const fetch = vi.fn((_url: string, init: RequestInit) => Promise.resolve(new Response(String(new Headers(init.headers).has('Authorization')))));
    vi.stubGlobal('fetch', fetch);
    vi.stubGlobal('document', { baseURI: 'http://localhost/ui/' });
    expect(await (await ask('GET', '/api/tags')).text()).toBe('false');
  });
});
