// The visible part of a waterfall, in ns since the request began. Pure.
export interface View {
  begin: number;
  end: number;
}

const MIN_WIDTH = 1000; // 1 µs

// Returns the view moved into [0, whole]; undefined if it is everything.
function inside(begin: number, width: number, whole: number): View | undefined {
  if (!(width < whole)) return undefined;
  const from = Math.min(Math.max(0, begin), whole - width);
  return { begin: from, end: from + width };
}

// Zooms by `factor`; more than 1 shows less. The point `at`, from 0 (left) to 1 (right), keeps its
// place. An undefined view is everything.
export function zoomed(view: View | undefined, factor: number, at: number, whole: number): View | undefined {
  const { begin, end } = view ?? { begin: 0, end: whole };
  const width = Math.max(Math.min(MIN_WIDTH, whole), (end - begin) / factor);
  return inside(begin + (end - begin - width) * Math.min(1, Math.max(0, at)), width, whole);
}

// Moves the view by a share of its width; more than 0 is later.
export function panned(view: View | undefined, share: number, whole: number): View | undefined {
  if (!view) return undefined;
  const width = view.end - view.begin;
  return inside(view.begin + share * width, width, whole);
}

// Returns the place of a span in the view, in percent; undefined if it is outside.
export function placed(span: View, view: View): { left: number; width: number } | undefined {
  if (span.end < view.begin || span.begin > view.end) return undefined;
  const width = Math.max(1, view.end - view.begin);
  const from = Math.max(span.begin, view.begin);
  return { left: (100 * (from - view.begin)) / width, width: (100 * (Math.min(span.end, view.end) - from)) / width };
}

// Formats a time of the scale, with as many digits as neighbours at a distance of `step` need.
export function tickText(ns: number, step: number, end: number): string {
  const [unit, name] = end >= 1e9 ? [1e9, 's'] : end >= 1e6 ? [1e6, 'ms'] : [1e3, 'µs'];
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(Math.max(step, 1) / unit)) + 1));
  return ns === 0 ? '0' : `${(ns / unit).toFixed(digits)} ${name}`;
}
