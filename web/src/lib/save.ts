// Saves a file as a download of the browser.
export function saveFile(name: string, text: string, type = 'text/plain'): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.download = name.replace(/[^\p{L}\p{N}._ -]+/gu, '_').slice(0, 80);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
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
