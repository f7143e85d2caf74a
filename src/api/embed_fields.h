// What requests for vectors have in common on all routes: how their inputs, fields and header
// fields are read, and what the answer's head tells. Pure but for the call; any thread. All throw
// http::StatusError (400, 413).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/call.h"
#include "api/embedder.h"
#include "api/fields.h"
#include "api/json_reader.h"

namespace billow::api {

inline constexpr size_t kMaxInputs = kMaxJsonElements;  // of one request

enum class InputKinds : uint8_t {
  kTexts,
  kTextsAndTokens,  // an array of numbers is one input, of token ids
};

// A text, or an array of inputs. One that is neither is an UnusableInput where `partial`, else
// refused with "invalid input type"; more than kMaxInputs are 413.
std::vector<EmbedInput> embed_inputs(const Json& input, InputKinds kinds, bool partial);

// "truncate", "truncation_direction", "pooling", "normalize", "dimensions" (if above 0), "partial".
void read_embed_fields(const Fields& fields, EmbedRequest& request);

// X-Billow-Priority: bulk, and whose the request is: X-Billow-Client, else its connection.
void read_embed_headers(const http::Request& from, EmbedRequest& request);

// X-Billow-Context and X-Billow-Context-Reason of the largest input, absent where no input was
// used; X-Billow-Truncated, how many inputs were cut, absent where none were.
void add_sizing_headers(Call& call, const EmbedReply& reply);

// {"index":2,"error":"...","status":400}: in the place of an input's vector.
void append_failure(std::string& text, size_t index, const EmbedResult& result);

}  // namespace billow::api
