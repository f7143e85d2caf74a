// Steps that several cases of page.mjs share.
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
  await page.getByText('1 chat was imported').waitFor();
  await page.getByRole('button', { name: 'Close', exact: true }).click();
  await page.locator('nav.chats').getByRole('link', { name: chat.title ?? 'Imported', exact: true }).first().click();
  await page.locator('article').first().waitFor();
}

// Answers with words that do not end: "word0 word1 ...".
export function words(_request, response) {
  response.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
  let n = 0;
  const timer = setInterval(() => response.write(line(`word${n++} `)), 30);
  response.on('close', () => clearInterval(timer));
}
