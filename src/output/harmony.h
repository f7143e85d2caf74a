// The names of tools in harmony, the form of gpt-oss. The prompt declares tools as TypeScript
// functions, so their names must be identifiers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "output/format.h"

namespace billow::output {

// Returns whether answers of this format are messages of harmony.
bool is_harmony(const Format& format);

// Returns names for these tools that the model can use, in the same order and all different. The
// prompt declares tools by these names; the parser reports the tools' own names.
std::vector<std::string> harmony_names(std::span<const std::string> names);

}  // namespace billow::output
