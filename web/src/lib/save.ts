const MAX_STEM = 80; // characters

// Returns a name that every system takes. A long name keeps its extension.
export function fileName(name: string): string {
  const plain = name.replace(/[^\p{L}\p{N}._ -]+/gu, '_');
  const dot = plain.lastIndexOf('.');
  const end = dot > 0 ? dot : plain.length;
  return [...plain.slice(0, end)].slice(0, MAX_STEM).join('') + plain.slice(end);
}

// Saves a file as a download of the browser. The content may come in parts, because one string
// cannot have more than about 512 MB. Returns the size of the file.
export function saveFile(name: string, content: string | BlobPart[], type = 'text/plain'): number {
  const file = new Blob(typeof content === 'string' ? [content] : content, { type: `${type};charset=utf-8` });
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = fileName(name);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  return file.size;
}

// Copies text to the clipboard, even if a page over plain http has no clipboard API.
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'sr';
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}
