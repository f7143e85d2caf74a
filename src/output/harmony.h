// The names of tools in harmony, the form of gpt-oss: tools are declared to the model as functions
// of TypeScript, so their names must be identifiers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "output/format.h"

namespace billow::output {

// Whether answers of this form are messages of harmony.
bool is_harmony(const Format& format);

// The names by which the model knows these tools, in the same order: no two are equal. The prompt
// declares them so; the parser gives back the tools' own names.
std::vector<std::string> harmony_names(std::span<const std::string> names);

}  // namespace billow::output
