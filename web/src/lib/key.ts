// The API key that the page sends. It stays in sessionStorage, so it ends with the tab.

const KEY = 'billow-api-key';
let kept = ''; // if the browser has no storage for the page

export function apiKey(): string {
  try {
    return sessionStorage.getItem(KEY) ?? '';
  } catch {
    return kept;
  }
}

export function keepKey(key: string): void {
  kept = key;
  try {
    sessionStorage.setItem(KEY, key);
  } catch {
    // The key is valid until the page closes.
  }
}

// Asks the user for a key. Returns false if the user gives none. The page sets it.
type AskForKey = (isWrong: boolean) => Promise<boolean>;
let askUser: AskForKey = () => Promise.resolve(false);
let asking: Promise<boolean> | null = null;
let hasDeclined = false; // the user gave no key: the page does not ask again until it is reloaded

export function onKeyNeeded(ask: AskForKey): void {
  askUser = ask;
  hasDeclined = false;
}

// Waits for a key other than `refused`. Requests that are refused at the same time share one
// question.
export async function otherKey(refused: string): Promise<boolean> {
  if (apiKey() !== refused) return true;
  if (hasDeclined) return false;
  asking ??= askUser(refused !== '').then((isGiven) => {
    asking = null;
    hasDeclined = !isGiven;
    return isGiven;
  });
  return asking;
}
