// Writes vectors as JSON directly from floats, with the fewest digits that parse to the same float.
// Pure functions; thread-safe.
#pragma once

#include <span>
#include <string>

#include "api/embedder.h"

namespace billow::api {

// Appends "[0.5,-1e-05]". REQUIRES: finite values.
void append_vector(std::string& text, std::span<const float> vector);

// Appends a string: base64 of the little-endian floats.
void append_base64(std::string& text, std::span<const float> vector);

// Appends the result's vector, or an array of vectors if it was not pooled. REQUIRES: no error.
void append_vectors(std::string& text, const EmbedResult& result, bool base64 = false);

}  // namespace billow::api
