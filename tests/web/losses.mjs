// Cases of page.mjs for what must not be lost: questions that cannot be sent, answers whose database
// has gone, and chats that the browser cannot read or has no room for.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { telling } from './front.mjs';
import { ask, importChat, words } from './steps.mjs';

const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
const value = (page) => page.locator('#composer').inputValue();

// Lets a case close the page's database, and refuse to open it again.
const holdDatabase = (page) =>
  page.addInitScript(() => {
    const transaction = IDBDatabase.prototype.transaction;
    IDBDatabase.prototype.transaction = function (...all) {
      window.database_ = this;
      return transaction.apply(this, all);
    };
    const open = IDBFactory.prototype.open;
    IDBFactory.prototype.open = function (...all) {
      if (window.isGone_) throw new DOMException('gone', 'UnknownError');
      return open.apply(this, all);
    };
  });

export const lossCases = ({ setting, front, open }) => ({
  async kept(page) {
    // The tools of the chat are not JSON: the question and its image stay in the field.
    const server = await front(telling('Yes.'), ['completion', 'vision', 'tools']);
    await open(page, server.url);
    await importChat(page, server.url, [['user', 'hi'], ['assistant', 'half', { state: 'stopped' }]], { params: { tools: 'not json' } });
    await page.locator('.composer input[type=file]').setInputFiles([{ name: 'a.png', mimeType: 'image/png', buffer: PNG }]);
    await page.locator('.composer img').waitFor();
    await page.locator('#composer').fill('an important question');
    await page.keyboard.press('Enter');
    await page.getByText('This is not JSON').waitFor();
    await page.waitForTimeout(300);
    assert.equal(await value(page), 'an important question');
    assert.equal(await page.locator('.composer img').count(), 1);
    assert.equal(await page.locator('article').count(), 2);
    // So does an edited question. Continue shows the reason, too.
    await page.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.locator('.edit textarea').fill('an edited question');
    await page.getByRole('button', { name: 'Send again' }).click();
    await page.getByText('This is not JSON').waitFor();
    await page.waitForTimeout(300);
    assert.equal(await page.locator('.edit textarea').inputValue(), 'an edited question');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByText('This is not JSON').waitFor();
    await page.reload();
    await page.waitForFunction(() => document.querySelector('#composer')?.value === 'an important question');
    await page.getByRole('button', { name: 'Options' }).click();
    await page.getByLabel('Tools, as JSON').fill('');
    await page.getByRole('button', { name: 'OK' }).click();
    await page.locator('#composer').press('Enter');
    await page.getByText('Yes.').waitFor();
    assert.equal(await value(page), '');
    server.close();
  },

  async closed(page) {
    // The browser ends the connection to the database during an answer: the page opens it again.
    const server = await front(words);
    await holdDatabase(page);
    await open(page, server.url);
    await page.locator('#composer').fill('Count');
    await page.keyboard.press('Enter');
    await page.getByText('word20 ').waitFor();
    await page.evaluate(() => window.database_.close());
    await page.getByText('word90 ').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('Stopped', { exact: true }).first().waitFor();
    await page.getByText('word90 ').waitFor();
    await page.reload();
    await page.getByText('word90 ').waitFor();
    assert.equal(await page.locator('.banner').count(), 0);
    server.close();
  },

  async lost(page) {
    // The database cannot be opened again: the chats go on in memory, with one notice.
    const server = await front(words);
    await holdDatabase(page);
    await open(page, server.url);
    await page.locator('#composer').fill('Count');
    await page.keyboard.press('Enter');
    await page.getByText('word20 ').waitFor();
    await page.evaluate(() => { window.isGone_ = true; window.database_.close(); });
    await page.getByText('no longer stores the chats of this tab').waitFor();
    await page.getByText('word90 ').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('Stopped', { exact: true }).first().waitFor();
    await page.getByText('word90 ').waitFor();
    await page.locator('#composer').fill('And again');
    await page.keyboard.press('Enter');
    await page.locator('.user').getByText('And again').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByRole('link', { name: 'New chat' }).click();
    await page.getByRole('link', { name: 'Count', exact: true }).click();
    await page.locator('.user').getByText('And again').waitFor();
    await page.getByText('word90 ').first().waitFor();
    server.close();
  },

  async unreadable(page) {
    // The browser cannot read the stored chats: the page works without them, and leaves them alone.
    await page.addInitScript(() => { IDBObjectStore.prototype.getAll = () => { throw new DOMException('Failed to read large IndexedDB value', 'DataError'); }; });
    await open(page, setting.main);
    await page.getByText('The stored chats cannot be read: Failed to read large IndexedDB value').waitFor();
    await ask(page, '1 2 3');
    await page.locator('.user').getByText('1 2 3').waitFor();
  },

  async exported(page) {
    // All chats are exported and imported. A reason is shown if they cannot be read.
    await page.addInitScript(() => {
      const getAll = IDBIndex.prototype.getAll;
      IDBIndex.prototype.getAll = function (...all) {
        if (window.isBroken_) throw new DOMException('Failed to read', 'DataError');
        return getAll.apply(this, all);
      };
    });
    await open(page, setting.main);
    await importChat(page, setting.main, [['user', 'the question'], ['assistant', 'the answer']], { title: 'x'.repeat(200) });
    const save = async (button) => {
      const [file] = await Promise.all([page.waitForEvent('download'), button.click()]);
      return file;
    };
    await page.getByRole('button', { name: /^More for this chat/ }).click();
    const one = await save(page.getByRole('button', { name: 'As JSON lines' }));
    assert.equal(one.suggestedFilename(), `${'x'.repeat(80)}.jsonl`);
    await page.goto(`${setting.main}/ui/#/settings`);
    const all = await save(page.getByRole('button', { name: 'Export all chats' }));
    const buffer = readFileSync(await all.path());
    await page.locator('input[type=file]').setInputFiles({ name: 'all.jsonl', mimeType: 'application/x-ndjson', buffer });
    await page.locator('nav.chats li').nth(1).waitFor();
    assert.equal(await page.locator('nav.chats li').count(), 2);
    await page.evaluate(() => { window.isBroken_ = true; });
    await page.getByRole('button', { name: 'Export all chats' }).click();
    await page.getByText('The chats cannot be exported: Failed to read').waitFor();
    await page.locator('nav.chats li a').first().click();
    await page.getByText('This chat cannot be read: Failed to read').waitFor();
  },

  async reading(page) {
    // A question that is sent while its image is being read includes the image.
    const asked = [];
    const server = await front((body, response) => {
      asked.push(body.messages[0]);
      telling('Yes.')(body, response);
    }, ['completion', 'vision']);
    await page.addInitScript(() => {
      const read = Blob.prototype.arrayBuffer;
      Blob.prototype.arrayBuffer = async function () {
        await new Promise((resolve) => setTimeout(resolve, 500));
        return read.call(this);
      };
    });
    await open(page, server.url);
    await page.getByRole('button', { name: 'Add an image' }).waitFor();
    await page.locator('.composer input[type=file]').setInputFiles([{ name: 'a.png', mimeType: 'image/png', buffer: PNG }]);
    await page.locator('#composer').fill('What is it?');
    await page.keyboard.press('Enter');
    await page.getByText('Yes.').waitFor();
    assert.deepEqual([asked[0].content, asked[0].images], ['What is it?', [PNG.toString('base64')]]);
    assert.equal(await page.locator('.composer img').count(), 0);
    server.close();
  },

  async room(page) {
    // An import that is too large changes nothing. Chats in memory are stored when there is room.
    await page.addInitScript(() => {
      const put = IDBObjectStore.prototype.put;
      IDBObjectStore.prototype.put = function (...all) {
        if (window.isFull_) throw new DOMException('full', 'QuotaExceededError');
        return put.apply(this, all);
      };
    });
    const server = await front(telling('Yes.'));
    await open(page, server.url);
    const full = (is) => page.evaluate((now) => { window.isFull_ = now; }, is);
    const reload = async () => {
      await page.reload();
      await page.locator('nav.chats li').first().waitFor();
    };
    await full(true);
    await importChat(page, server.url, [['user', 'hi']], {}, 'this browser has no room for it');
    await full(false);
    await page.goto(`${server.url}/ui/#/chat`);
    await ask(page, 'the first');
    await reload();
    await page.getByRole('link', { name: 'New chat' }).click();
    await full(true);
    await ask(page, 'the second');
    await page.getByText('This browser has no room for more chats').waitFor();
    await importChat(page, server.url, [['user', 'hi']], {}, 'this browser does not store it');
    await page.getByRole('button', { name: 'Close', exact: true }).click();
    await page.getByText('This browser has no room for more chats').waitFor();
    await full(false);
    await page.getByRole('button', { name: 'More for this chat: the first' }).click();
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.locator('.banner').waitFor({ state: 'detached' });
    await reload();
    const chats = page.locator('nav.chats').getByRole('link');
    assert.deepEqual((await chats.allInnerTexts()).sort(), ['Imported', 'the second']);
    await chats.filter({ hasText: 'the second' }).click();
    await page.getByText('Yes.').waitFor();
    server.close();
  },
});
