// Cases of page.mjs for what the browser keeps: drafts, the order of the chats, and deleted chats.
import assert from 'node:assert/strict';
import { line, telling } from './front.mjs';
import { ask, rows, until } from './steps.mjs';

async function menuOf(page, title) {
  await page.getByRole('button', { name: `More for this chat: ${title}` }).click();
}

// Makes the page's writes to its database wait until window.isFree_.
const holdWrites = (page) =>
  page.evaluate(
    () =>
      new Promise((resolve) => {
        window.isFree_ = false;
        const opening = indexedDB.open('billow');
        opening.onsuccess = () => {
          const held = opening.result.transaction(['chats', 'messages'], 'readwrite').objectStore('chats');
          const next = () => {
            if (window.isFree_) return opening.result.close();
            resolve();
            held.count().onsuccess = next;
          };
          held.count().onsuccess = next;
        };
      }),
  );

export const keepingCases = ({ setting, front, open }) => ({
  async drafts(page) {
    // Drafts of a new chat and of a stored one survive a quick change of the chat, and a reload.
    await open(page, setting.main);
    await ask(page, '1 2 3');
    await page.locator('#composer').pressSequentially('about the first');
    await page.getByRole('link', { name: 'New chat' }).click();
    await page.waitForFunction(() => document.querySelector('#composer').value === '');
    await page.locator('#composer').pressSequentially('about nothing yet');
    await page.getByRole('link', { name: '1 2 3', exact: true }).click();
    await page.waitForFunction(() => document.querySelector('#composer').value === 'about the first');
    await page.goto('about:blank');
    await open(page, setting.main);
    await page.waitForFunction(() => document.querySelector('#composer').value === 'about nothing yet');
    await ask(page, '4 5 6');
    await page.getByRole('link', { name: 'New chat' }).click();
    await page.waitForFunction(() => document.querySelector('#composer').value === '');
  },

  async pinned(page) {
    // Pinned chats stay at the top after a reload.
    await open(page, setting.main);
    await ask(page, '1 2 3');
    await page.getByRole('link', { name: 'New chat' }).click();
    await ask(page, '4 5 6');
    await menuOf(page, '1 2 3');
    await page.getByRole('button', { name: 'Pin to the top' }).click();
    const titles = () => page.locator('nav.chats li a').allInnerTexts();
    await page.locator('nav.chats li').first().getByText('1 2 3').waitFor();
    await rows(page, 'chats'); // what is shown may not be stored yet
    await page.goto('about:blank');
    await open(page, setting.main);
    await page.locator('nav.chats li').nth(1).waitFor();
    assert.deepEqual(await titles(), ['★1 2 3', '4 5 6']);
  },

  async slowly(page) {
    // The browser writes slowly: what the user does next has the change before it.
    const asked = [];
    const server = await front((body, response) => {
      asked.push(body.messages);
      telling('Yes.')(body, response);
    });
    const instruct = async (text) => {
      await page.getByRole('button', { name: 'Options' }).click();
      await page.getByLabel('System prompt').fill(text);
      await page.getByRole('button', { name: 'OK' }).click();
    };
    const release = () => page.evaluate(() => { window.isFree_ = true; });
    const answered = (n) => page.getByRole('button', { name: 'Again' }).nth(n - 1).waitFor(); // no answer is running
    await open(page, server.url);
    await ask(page, 'the first');
    await holdWrites(page);
    await instruct('Be brief.');
    await page.locator('#composer').fill('the second');
    await page.keyboard.press('Enter');
    await page.waitForTimeout(300);
    await release();
    await until(page, () => asked.length === 2, 'the second question');
    assert.equal(asked[1][0].content, 'Be brief.');
    await answered(2);
    // The question that is being stored stays.
    await holdWrites(page);
    await page.locator('#composer').fill('the third');
    await page.keyboard.press('Enter');
    await instruct('Be long.');
    await page.waitForTimeout(300);
    await release();
    await answered(3);
    const stored = (what, holds) => until(page, async () => holds((await rows(page, 'chats'))[0] ?? {}), what);
    await stored('the options', (chat) => chat.system === 'Be long.');
    await page.reload();
    await answered(3);
    await ask(page, 'the fourth');
    await answered(4);
    assert.deepEqual(asked[3].filter((one) => one.role !== 'assistant').map((one) => one.content), ['Be long.', 'the first', 'the second', 'the third', 'the fourth']);
    // So do two changes, and options of a new chat.
    await holdWrites(page);
    await page.locator('#composer').fill('the fifth');
    await page.keyboard.press('Enter');
    await instruct('Be kind.');
    await menuOf(page, 'the first');
    await page.getByRole('button', { name: 'Pin to the top' }).click();
    await page.waitForTimeout(300);
    await release();
    await stored('both changes', (chat) => chat.system === 'Be kind.' && chat.pinned);
    await answered(5);
    await page.getByRole('link', { name: 'New chat' }).click();
    await page.waitForFunction(() => document.querySelector('article') === null);
    await holdWrites(page);
    await page.locator('#composer').fill('a new one');
    await page.keyboard.press('Enter');
    await instruct('Be new.');
    // The page stays where the user goes meanwhile.
    await page.getByRole('link', { name: 'the first', exact: false }).first().click();
    await page.waitForTimeout(300);
    await release();
    await until(page, async () => (await rows(page, 'chats')).some((chat) => chat.title === 'a new one' && chat.system === 'Be new.'), 'the options of the new chat');
    await page.locator('.user').getByText('the fifth').waitFor();
    assert.equal(await page.locator('.user').getByText('a new one').count(), 0);
    // A chat that is deleted while its question is stored stays deleted.
    await page.locator('nav.chats').getByRole('link', { name: 'a new one' }).click();
    await page.locator('.user').getByText('a new one').waitFor(); // the other chat has several of these buttons
    await answered(1);
    await holdWrites(page);
    await page.locator('#composer').fill('the last');
    await page.keyboard.press('Enter');
    await menuOf(page, 'a new one');
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.waitForTimeout(300);
    await release();
    await page.locator('nav.chats').getByRole('link', { name: 'a new one' }).waitFor({ state: 'detached' });
    await until(page, async () => (await rows(page, 'messages')).every((row) => row.text !== 'a new one'), 'the messages are gone');
    await page.waitForTimeout(1500);
    assert.deepEqual((await rows(page, 'messages')).filter((row) => row.text === 'the last'), []);
    assert.equal(await page.locator('nav.chats li').count(), 1);
    server.close();
  },

  async deleted(page) {
    // A chat that is deleted while the model answers leaves nothing in the browser.
    let hasLeft = false;
    const server = await front((_request, response) => {
      response.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
      const timer = setInterval(() => response.write(line('word ')), 20);
      response.on('close', () => {
        clearInterval(timer);
        hasLeft = true;
      });
    });
    await open(page, server.url);
    for (let i = 0; i < 5; i += 1) {
      hasLeft = false;
      await page.locator('#composer').fill(`Question ${i}`);
      await page.keyboard.press('Enter');
      await page.getByText('word word').first().waitFor();
      await menuOf(page, `Question ${i}`);
      await page.getByRole('button', { name: 'Delete', exact: true }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await page.locator('nav.chats li').waitFor({ state: 'detached' });
      while (!hasLeft) await page.waitForTimeout(20);
      await page.waitForTimeout(200);
      assert.deepEqual(await rows(page, 'messages'), []);
      assert.deepEqual(await rows(page, 'chats'), []);
    }
    server.close();
  },
});
