// Steps that several cases of page.mjs share.
import assert from 'node:assert/strict';
import { line } from './front.mjs';

export async function ask(page, text) {
  await page.locator('#composer').fill(text);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Again' }).first().waitFor({ timeout: 90_000 });
}

// Requests an answer in a format that needs a long text. Without it, these models end at random,
// and an answer that repeats a token for long is ended.
export async function askForMuch(page) {
  await page.getByRole('button', { name: 'Options' }).click();
  await page.getByLabel('Max tokens of an answer').fill('30000');
  await page.getByLabel('Format of the answer').selectOption('JSON with a schema');
  await page.getByLabel('JSON schema').fill('{"type":"array","items":{"type":"string","pattern":"^[a-z]{4,12}$"},"minItems":4000}');
  await page.getByRole('button', { name: 'OK' }).click();
}

export async function theme(page, name) {
  await page.emulateMedia({ colorScheme: name });
  await page.waitForFunction((wanted) => document.documentElement.dataset.theme === wanted, name);
}

// Imports one chat with messages [role, text, more], and opens it. With `refusal`, expects that text
// instead.
export async function importChat(page, url, messages, chat = {}, refusal = '') {
  await page.goto(`${url}/ui/#/settings`);
  const rows = [{ kind: 'billow-chats', version: 1 }, { chat: { id: 'c', title: 'Imported', models: ['writer:latest'], leaf: `m${messages.length - 1}`, ...chat } }];
  messages.forEach(([role, text, more], index) => rows.push({ message: { id: `m${index}`, chat: 'c', parent: index ? `m${index - 1}` : '', role, text, created: index, ...more } }));
  await page.locator('input[type=file]').setInputFiles({ name: 'x.jsonl', mimeType: 'text/plain', buffer: Buffer.from(rows.map((row) => JSON.stringify(row)).join('\n')) });
  if (refusal) return void (await page.getByText(refusal).waitFor());
  await page.locator('nav.chats').getByRole('link', { name: chat.title ?? 'Imported', exact: true }).first().click();
  await page.locator('article').first().waitFor();
}

// Waits until `holds()` is true. Polls, because `holds` runs outside of the page.
export async function until(page, holds, what) {
  for (const end = Date.now() + 60_000; Date.now() < end; await page.waitForTimeout(50)) if (await holds()) return;
  assert.fail(`${what}: not within a minute`);
}

// Waits until the count `n()` has not grown for `ms`.
export async function quiet(page, n, ms, what) {
  let last = n();
  let since = Date.now();
  await until(page, () => {
    if (n() !== last) [last, since] = [n(), Date.now()];
    return Date.now() - since >= ms;
  }, what);
}

// Notes the milliseconds of each frame in frames_, and counts the changes of answers in changes_.
export async function watchFrames(page) {
  await page.evaluate(() => {
    window.frames_ = [];
    window.changes_ = 0;
    const answers = (change) => (change.target.nodeType === 1 ? change.target : change.target.parentElement)?.closest('.assistant .markdown');
    new MutationObserver((changes) => { if (changes.some(answers)) window.changes_ += 1; }).observe(document.body, { subtree: true, childList: true, characterData: true });
    let last = performance.now();
    const next = () => { const now = performance.now(); window.frames_.push(now - last); last = now; requestAnimationFrame(next); };
    requestAnimationFrame(next);
  });
}

// Returns all rows of a table of the page's database.
export const rows = (page, table) =>
  page.evaluate(
    (name) =>
      new Promise((resolve, reject) => {
        const opening = indexedDB.open('billow');
        opening.onerror = () => reject(opening.error);
        opening.onsuccess = () => {
          const all = opening.result.transaction(name).objectStore(name).getAll();
          all.onsuccess = () => {
            opening.result.close();
            resolve(all.result);
          };
        };
      }),
    table,
  );

// Answers with words that do not end: "word0 word1 ...".
export function words(_request, response) {
  response.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
  let n = 0;
  const timer = setInterval(() => response.write(line(`word${n++} `)), 30);
  response.on('close', () => clearInterval(timer));
}
