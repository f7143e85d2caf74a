// The common parts of all routes for vectors. They parse inputs, fields and headers of the request,
// and add headers to the answer. Pure functions, except for the changes to Call; thread-safe. All
// functions throw http::StatusError (400, 413).
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

inline constexpr size_t kMaxInputs = kMaxJsonElements;  // per request

enum class InputKinds : uint8_t {
  kTexts,
  kTextsAndTokens,  // an array of numbers is one input of token ids
};

// Parses a text, or an array of inputs. If an input has another type, returns an UnusableInput for
// it if `partial`, otherwise throws "invalid input type". Throws 413 for more than kMaxInputs
// inputs.
std::vector<EmbedInput> embed_inputs(const Json& input, InputKinds kinds, bool partial);

// Parses "truncate", "truncation_direction", "pooling", "normalize", "dimensions" (if above 0) and
// "partial".
void read_embed_fields(const Fields& fields, EmbedRequest& request);

// Parses "X-Billow-Priority: bulk" and the client's id: X-Billow-Client, by default the
// connection's peer.
void read_embed_headers(const http::Request& from, EmbedRequest& request);

// Adds X-Billow-Context and X-Billow-Context-Reason of the largest input, if any input was used.
// Adds X-Billow-Truncated, the number of truncated inputs, if it is not 0.
void add_sizing_headers(Call& call, const EmbedReply& reply);

// Appends {"index":2,"error":"...","status":400}, which replaces an input's vector.
void append_failure(std::string& text, size_t index, const EmbedResult& result);

}  // namespace billow::api
