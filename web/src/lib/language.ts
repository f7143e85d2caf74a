import { en, type Texts } from './en';

export const languages: Record<string, Texts> = { en };

// The active texts. The language is chosen before the page is drawn.
export const say: Texts = languages['en'] ?? en;
