// Cases of page.mjs for what the browser keeps: drafts, the order of the chats, and deleted chats.
import assert from 'node:assert/strict';
import { line } from './front.mjs';
import { ask, rows } from './steps.mjs';

async function menuOf(page, title) {
  await page.getByRole('button', { name: `More for this chat: ${title}` }).click();
}

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
    await page.goto('about:blank');
    await open(page, setting.main);
    await page.locator('nav.chats li').nth(1).waitFor();
    assert.deepEqual(await titles(), ['★1 2 3', '4 5 6']);
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
