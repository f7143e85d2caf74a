// The calls that a JSON object of a model's answer stands for. Models wrap them in many ways.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace billow::output {

struct FoundCall {
  std::string name;
  std::string arguments;  // a JSON object, its keys in the model's order
};

// Of `object`, the text of a whole JSON object: members "name" and "arguments" or "parameters" (an
// object, or a text that holds one), there or in what it contains. Else, unless it has a "name",
// the first of `names` in `context` and the object is named so: the member of that name holds its
// arguments, or "arguments" or "parameters" do, or the object is them. `context` is what the model
// wrote before the object, and the object. Names that are not in `names` are no calls. Nothing for
// what is not JSON, or nested very deep.
std::vector<FoundCall> find_calls(std::string_view object, std::string_view context,
                                  std::span<const std::string> names);

}  // namespace billow::output
