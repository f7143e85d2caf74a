// Finds the calls in a JSON object of a model's answer. Models wrap calls in many ways.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace billow::output {

struct FoundCall {
  std::string name;
  std::string arguments;  // a JSON object with its keys in the model's order
};

// Finds calls in `object`, the text of a whole JSON object.
//
// First way: the object, or an object within it, has "name" and "arguments" (or "parameters"). The
// arguments are an object, or a text that contains an object.
//
// Second way, if the first way finds nothing and the object has no "name": the call has the first
// of `names` in `context`. Its arguments are the member of that name. If the value of a member is
// that name, the arguments are "arguments" or "parameters". Otherwise the object itself is the
// arguments.
//
// `context` is the model's text before the object, and the object. Names that are not in `names`
// are not calls. Returns nothing for invalid JSON, and for very deep JSON.
std::vector<FoundCall> find_calls(std::string_view object, std::string_view context,
                                  std::span<const std::string> names);

}  // namespace billow::output
