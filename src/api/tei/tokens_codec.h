// Codec of POST /tokenize, /detokenize and /decode. The model's vocabulary answers them, without a
// runner. /tokenize has several forms: "inputs" as in text-embeddings-inference, "content" as in
// llama-server, "prompt" and "messages" as in vLLM. Pure functions; thread-safe. All functions
// throw http::StatusError (400, 413).
#pragma once

#include <cstddef>
#include <string>

#include "api/fields.h"
#include "tokenizer/tokenizer.h"

namespace billow::api::tei {

// Answers /tokenize:
// {"inputs":TEXT or [TEXT...],"add_special_tokens"?:true} ->
//   [[{"id","text","special","start":null,"stop":null}...]...]
// {"content":TEXT,"add_special"?:false,"parse_special"?:true,"with_pieces"?:false} ->
//   {"tokens":[id...]}, with pieces [{"id","piece"}...]; a piece that is not UTF-8 is an array of
//   bytes
std::string tokenize_json(const tokenizer::Tokenizer& tokenizer, const Fields& fields);

// Answers vLLM's /tokenize:
// {"prompt":TEXT,"add_special_tokens"?,"return_token_strs"?:false} ->
//   {"count","max_model_len","tokens":[id...],"token_strs":null or [TEXT...]}
// `text` is the prompt. `adds_special` is the default of "add_special_tokens".
std::string prompt_tokens_json(const tokenizer::Tokenizer& tokenizer, const Fields& fields,
                               const std::string& text, bool adds_special, size_t max_context);

// Answers /detokenize and /decode:
// {"tokens":[id...]} -> {"content":TEXT,"prompt":TEXT}, the names of llama-server and vLLM
// {"ids":[id...] or [[id...]...],"skip_special_tokens"?:true} -> [TEXT...]
std::string detokenize_json(const tokenizer::Tokenizer& tokenizer, const Fields& fields);

}  // namespace billow::api::tei
