// Encodes and decodes the requests and responses of a runner. A request is one line of JSON,
// followed by token ids. A response consists of lines of JSON, or of vectors. Pure functions; any
// thread.
#pragma once

#include <string>
#include <string_view>

#include "context/compaction.h"
#include "engine/embed/batcher.h"
#include "runner/engine_loop.h"
#include "tokenizer/tokenizer.h"

namespace billow::runner {

// Parses the body of a completion. It begins with one line:
//   {"n_prompt":3,"options":{"temperature":0.8,...},"stop":["..."],"num_predict":-1,
//    "ignore_eos":false,"logprobs":false,"top_logprobs":0,"max_context":4096,"sizes":[512,1024],
//    "overflow_policy":"refill","reserve_batches":9,"overflow_batch":64,"max_repeats":0,
//    "markers":["<tool_call>"],"ends_repetition":false,
//    "max_draft":32,"prediction":[1,2,3],"prompt_logprobs":false,"whole":false,"bulk":false,
//    "adapters":["/path/of/an/adapter.gguf"],"salt":0,
//    "prompt_text":"...","images":[{"at":3,"text_at":12,"n_rows":264,"n_bytes":5000}],
//    "constraint":{"kind":"json_schema","text":"...","starts_after":"...","forced_next":"...",
//                  "opens_with":"...","starts_within":0,"may_not_start":false,
//                  "repeats_after":"..."}}
// After the '\n' follow n_prompt token ids of 32 bits each, little-endian, and the bytes of all
// images. Images are PNG files. Each is placed before token `at` and before byte `text_at` of the
// text. Every field except n_prompt is optional; in a constraint, every field except "kind".
// `options` has the names of SamplingOptions. Throws Error (kInvalidInput) that names the fault.
AnswerRequest parse_completion(std::string_view body);

// Returns the line of a chunk:
// "{"text":"...","marks":[...],"logprobs":[...],"events":[...],"prefill":[...]}\n". Empty fields
// are absent. A chunk with only text is a string: "\"...\"\n". An entry of marks is [offset,
// length] of a marker in the text, in bytes. An entry of logprobs and prompt_logprobs is
// {"token","logprob","bytes","top_logprobs"}. An entry of events has its log line as "text". An
// entry of prefill is {"n","duration"}: the evaluated tokens of the prompt, cached ones included,
// and the nanoseconds of the pass. "asking":true means that the request is paused until the server
// sets another budget.
std::string piece_line(const Chunk& chunk, const tokenizer::Tokenizer& tokenizer);

// Returns the last line: "{"done":true,"done_reason":"stop",...}\n" with counts, durations in
// nanoseconds and the ids of generated tokens. Optional fields: "stop_string" if a stop string
// ended the request; "picture_prepare_duration" and "picture_encode_duration" with pictures;
// "mask_duration" and "forced_count" with a constraint; "drafted_count" and "draft_accepted_count"
// if tokens were drafted; "error" after a failure.
std::string end_line(const AnswerEnd& end);

// Parses the body of an embedding request. It begins with one line:
//   {"n":[3,5],"first":[0,2],"pooling":"mean","bulk":true,"client":"...",
//    "adapters":["/path/of/an/adapter.gguf"]}
// After the '\n' follow the token ids of all texts, 32 bits each, little-endian; "n" has the number
// of tokens per text. Every field except n is optional. `first` is the number of tokens of a pair's
// first segment; 0 means no pair. Throws Error (kInvalidInput) that names the fault.
engine::EmbedRequest parse_embed(std::string_view body);

// Encodes the response to an embedding request: one line
// {"n_vectors":2,"size":384,"duration":1234567}, then after the '\n' the values of all vectors as
// 32-bit floats, little-endian. The duration is in nanoseconds. If the vectors differ in size,
// "sizes" has one number per text, 0 for a text without a vector. "errors" then has
// [{"index","status","error"}] for these texts.
std::string embed_answer(const Vectors& vectors);
std::string embed_answer(const engine::EmbedAnswers& answers);

// Returns "{"error":"..."}\n".
std::string error_line(std::string_view message);

}  // namespace billow::runner
