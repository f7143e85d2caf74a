// Imports an untrusted file of chats in any known format. Pure.
import { importChatGpt, type Imported } from './chatgpt';
import { importLines } from './tree';

// Throws Error with the reason if the file is of no known format.
export function importChats(file: string, newId: () => string): Imported {
  const text = file.replace(/^\ufeff/, '').trimStart();
  // Exported chats begin with a line that names their kind.
  const isOwn = text.startsWith('{') && text.slice(0, 1000).split('\n')[0]?.includes('"billow-chats"') === true;
  return isOwn ? { ...importLines(text, newId), skipped: 0 } : importChatGpt(text, newId);
}
