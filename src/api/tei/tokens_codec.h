// POST /tokenize, /detokenize and /decode: answered from a model's vocabulary, without a runner.
// /tokenize has two shapes: "inputs" is that of text-embeddings-inference, "content" that of
// llama-server. Pure functions; any thread. All throw http::StatusError (400, 413).
#pragma once

#include <string>

#include "api/fields.h"
#include "tokenizer/tokenizer.h"

namespace billow::api::tei {

// {"inputs":TEXT or [TEXT...],"add_special_tokens"?:true} ->
//   [[{"id","text","special","start":null,"stop":null}...]...]
// {"content":TEXT,"add_special"?:false,"parse_special"?:true,"with_pieces"?:false} ->
//   {"tokens":[id...]}, with pieces [{"id","piece"}...], a piece that is no UTF-8 as its bytes.
std::string tokenize_json(const tokenizer::Tokenizer& tokenizer, const Fields& fields);

// {"tokens":[id...]} -> {"content":TEXT}
// {"ids":[id...] or [[id...]...],"skip_special_tokens"?:true} -> [TEXT...]
std::string detokenize_json(const tokenizer::Tokenizer& tokenizer, const Fields& fields);

}  // namespace billow::api::tei
