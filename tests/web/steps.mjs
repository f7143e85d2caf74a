// Steps that several cases of page.mjs share.

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
