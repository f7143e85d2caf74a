// What a runner is asked and what it answers, as bytes: one line of JSON, then token ids; answers
// are lines of JSON, and vectors. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "context/compaction.h"
#include "engine/embed/batcher.h"
#include "runner/engine_loop.h"
#include "tokenizer/tokenizer.h"

namespace billow::runner {

// The body of a completion: one line
//   {"n_prompt":3,"options":{"temperature":0.8,...},"stop":["..."],"num_predict":-1,
//    "ignore_eos":false,"logprobs":false,"top_logprobs":0,"max_context":4096,"sizes":[512,1024],
//    "overflow_policy":"refill","reserve_batches":9,"overflow_batch":64,"max_repeats":0,
//    "markers":["<tool_call>"],"ends_repetition":false,
//    "max_draft":32,"prediction":[1,2,3],"prompt_logprobs":false,"whole":false,"adapters":["/path/of/an/adapter.gguf"],
//    "prompt_text":"...","images":[{"at":3,"text_at":12,"n_rows":264,"n_bytes":5000}],
//    "constraint":{"kind":"json_schema","text":"...","starts_after":"...","opens_with":"...",
//                  "starts_within":0,"may_not_start":false}}
// and behind its '\n' n_prompt token ids, 32 bits each, little-endian, and the bytes of all images,
// PNG files, which stand before the token `at` and the byte `text_at` of the text. All fields but
// n_prompt may be absent, and of a constraint all but "kind"; `options` has the names of
// SamplingOptions. Throws Error (kInvalidInput) naming what is wrong.
AnswerRequest parse_completion(std::string_view body);

// "{"text":"...","marks":[...],"logprobs":[...],"events":[...],"prefill":[...]}\n"; what is empty
// is left out, and a piece that is text alone is a string: "\"...\"\n".
// An entry of marks is [offset, length] of a marker in the text, in bytes; one of
// logprobs, and of prompt_logprobs, is {"token","logprob","bytes","top_logprobs"}; one of events
// has its line as "text"; one of prefill is {"n","duration"}: tokens of the prompt that are
// evaluated so far, known ones included, and the nanoseconds of the pass. "asking":true where the
// answer stands still until another budget comes.
std::string piece_line(const Chunk& piece, const tokenizer::Tokenizer& tokenizer);

// "{"done":true,"done_reason":"stop",...}\n": counts, durations in nanoseconds, the ids of the
// answer; "stop_string" where one has ended it; "mask_duration" and "forced_count" where it had a
// constraint; "drafted_count" and "draft_accepted_count" where tokens were drafted; "error" where
// something was wrong.
std::string end_line(const AnswerEnd& end);

// The body of a request for vectors: one line
//   {"n":[3,5],"first":[0,2],"pooling":"mean","bulk":true,"client":"...",
//    "adapters":["/path/of/an/adapter.gguf"]}
// and behind its '\n' the token ids of all texts, so many each, 32 bits, little-endian. All fields
// but n may be absent; of `first`, tokens of a pair's first segment, 0 is no pair. Throws Error
// (kInvalidInput) naming what is wrong.
engine::EmbedRequest parse_embed(std::string_view body);

// Its answer: one line {"n_vectors":2,"size":384,"duration":1234567} and behind its '\n' the values
// of all vectors, 32-bit floats, little-endian. The duration is in nanoseconds. Where not all have
// so many values there is "sizes", one number each, 0 for a text without a vector, and for those
// "errors": [{"index","status","error"}].
std::string embed_answer(const Vectors& vectors);
std::string embed_answer(const engine::EmbedAnswers& answers);

// "{"error":"..."}\n"
std::string error_line(std::string_view message);

}  // namespace billow::runner
