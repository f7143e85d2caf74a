// POST /tokenize, /detokenize and /decode: answered from a model's vocabulary, without a runner.
// /tokenize has several shapes: "inputs" is that of text-embeddings-inference, "content" that of
// llama-server, "prompt" and "messages" those of vLLM. Pure functions; any thread. All throw
// http::StatusError (400, 413).
#pragma once

#include <cstddef>
#include <string>

#include "api/fields.h"
#include "tokenizer/tokenizer.h"

namespace billow::api::tei {

// {"inputs":TEXT or [TEXT...],"add_special_tokens"?:true} ->
//   [[{"id","text","special","start":null,"stop":null}...]...]
// {"content":TEXT,"add_special"?:false,"parse_special"?:true,"with_pieces"?:false} ->
//   {"tokens":[id...]}, with pieces [{"id","piece"}...], a piece that is no UTF-8 as its bytes.
std::string tokenize_json(const tokenizer::Tokenizer& tokenizer, const Fields& fields);

// {"prompt":TEXT,"add_special_tokens"?,"return_token_strs"?:false} ->
//   {"count","max_model_len","tokens":[id...],"token_strs":null or [TEXT...]}
// `text` is the prompt; with special tokens unless the request says otherwise, or as
// `adds_special` says.
std::string prompt_tokens_json(const tokenizer::Tokenizer& tokenizer, const Fields& fields,
                               const std::string& text, bool adds_special, size_t max_context);

// {"tokens":[id...]} -> {"content":TEXT,"prompt":TEXT}, as llama-server and vLLM name it
// {"ids":[id...] or [[id...]...],"skip_special_tokens"?:true} -> [TEXT...]
std::string detokenize_json(const tokenizer::Tokenizer& tokenizer, const Fields& fields);

}  // namespace billow::api::tei
