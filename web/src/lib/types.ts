// The stored chats, and responses of the server. Plain data.

export interface ToolCall {
  name: string;
  arguments: unknown;
}

export interface LiveEvent {
  type: string; // "transition" or "compaction"
  from?: number;
  to?: number;
  context?: number;
  drop?: number;
  keep?: number;
  tokens?: number; // in the context at this moment
  at: number; // characters of the answer before the event
}

export interface Stats {
  requestId: string;
  prompt?: number; // tokens
  cached?: number; // tokens of the prompt
  written?: number;
  isAbout?: boolean; // the counts are estimates, because the answer was interrupted
  held?: number; // tokens in the context at the end, if isAbout
  context?: number; // the limit of the request
  firstMs?: number;
  promptMs?: number;
  decodeMs?: number;
  shortened?: string; // "9211->7150"
  reason?: string; // why the answer ended
  events: LiveEvent[];
}

export type Role = 'user' | 'assistant' | 'tool';

export interface Message {
  id: string;
  chat: string;
  parent: string; // '' for the first message
  role: Role;
  text: string;
  thinking?: string;
  thinkingMs?: number;
  tools?: ToolCall[];
  toolName?: string;
  images?: string[]; // base64, without a prefix
  state: 'done' | 'partial' | 'error' | 'stopped';
  error?: string;
  model?: string;
  group?: string; // shared by the answers of several models to one question
  stats?: Stats;
  created: number;
}

export interface Params {
  temperature?: number;
  top_k?: number;
  top_p?: number;
  min_p?: number;
  repeat_penalty?: number;
  seed?: number;
  num_predict?: number;
  stop?: string;
  think?: 'on' | 'off';
  format?: 'json' | 'schema';
  schema?: string;
  tools?: string;
  keepAlive?: string;
}

export interface Chat {
  id: string;
  title: string;
  models: string[]; // each question goes to all of these models
  system: string;
  params: Params;
  leaf: string; // the last message of the visible path
  pinned: boolean;
  created: number;
  updated: number;
}

export interface ModelRow {
  name: string;
  size: number;
  digest: string;
  modified_at: string;
  capabilities?: string[];
  details: {
    family?: string;
    parameter_size?: string;
    quantization_level?: string;
    context_length?: number;
    embedding_length?: number;
  };
}

export interface LoadedRow {
  name: string;
  size: number;
  expires_at: string;
  context_length: number;
  engine?: string;
}

export interface SpanRow {
  name: string;
  begin: number;
  end: number;
  attributes?: Record<string, unknown>;
}

export interface TraceHead {
  id: string;
  route: string;
  model?: string;
  began_at: string;
  duration: number; // ns
  status?: number;
}

export interface TraceFull extends TraceHead {
  node?: string;
  error?: string;
  spans: SpanRow[];
  left_out?: number;
}

// A response of POST /api/plan.
export interface Plan {
  model: string;
  loaded: boolean;
  prompt_tokens?: number; // absent for a load without a request, like the fields up to max_context
  prompt_tokens_full?: number; // before old messages are left out
  context?: number;
  max_context?: number;
  memory: {
    weights_bytes: number;
    scratch_bytes: number;
    kv_bytes: number; // of the first context
    total_bytes: number;
    budget_bytes: number;
    free_bytes: number;
    fits: boolean;
  };
}

// A response of GET /api/memory, and the data of the event "memory".
export interface MemoryRow {
  name: string;
  state: string;
  granted_bytes: number;
  held_bytes: number;
  kv_in_use_bytes: number;
  kv_cached_bytes: number;
  resident_bytes: number;
  gpu_bytes: number;
  running: number;
  waiting: number;
  load_ratio?: number;
}
export interface MemoryState {
  budget_bytes: number;
  granted_bytes: number;
  waiting: number;
  models: MemoryRow[];
}

// A response of GET /api/history; fields that the page does not use are left out. Times are Unix
// times in milliseconds.
export type Sample = [time: number, running: number, waiting: number, busy: number, held: number, read: number, written: number, byModel?: Record<string, number>];
export interface EvictionRow {
  time: number;
  model: string;
  class: string; // "kv_cached", "adapters" or "model"
  bytes: number;
}
export type PassRow = [time: number, texts: number, tokens: number, ms: number, model: string];
export interface HistoryState {
  samples: Sample[];
  evictions: EvictionRow[];
  passes: PassRow[];
}

// Data of other events of GET /api/events.
export interface SampleEvent {
  sample: Sample;
}
export interface ModelEvent {
  time: number;
  model: string;
  state: string; // "loading", "ready", "failed", "unloading" or "unloaded"
}
export interface EmbeddingEvent {
  time: number;
  model: string;
  passes: [time: number, texts: number, tokens: number, ms: number][];
}
export interface RequestEvent {
  time: number;
  id: string;
  route: string;
  state: string; // "begun" or "ended"
}
