// Vectors as JSON, straight from floats to text: the shortest digits that give the same float back.
// Pure; any thread.
#pragma once

#include <span>
#include <string>

namespace billow::api {

// Appends "[0.5,-1e-05]". REQUIRES: finite values.
void append_vector(std::string& text, std::span<const float> vector);

}  // namespace billow::api
