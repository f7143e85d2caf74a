// Finds the rules of a family for the name of a tensor. Immutable after the adds; then thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "convert/shaping.h"
#include "convert/tensor_name.h"

namespace billow::convert {

// How tensors with one name become tensors of the GGUF file. In `source`, "#" is the first number
// of the name, which is the layer; "*" is a later number. If `source` omits ".weight" and ".bias",
// `target` omits them, too, and gets the suffix of the tensor. Otherwise both names are complete.
// The tensors of all numbers "*" become one tensor with an additional dimension. The same applies
// to "#" at the end of `source` if `target` has no "#". Several rules may have the same source;
// each rule makes one tensor. An empty target drops the tensor.
struct TensorRule {
  std::string_view source;
  std::string_view target;
  void (*shape)(Shaping& shaping) = nullptr;
  bool may_be_quantised = false;  // although tensors of this name usually stay in F32
};
using TensorRules = std::span<const TensorRule>;

class RuleTable {
 public:
  // Adds rules. An earlier list with rules for a name overrides later lists. REQUIRES: the rules
  // outlive this object.
  void add(TensorRules rules);

  struct Match {
    const std::vector<const TensorRule*>* rules = nullptr;  // null: no rule matches
    bool is_whole = false;  // the names in these rules have suffixes
  };
  Match find(const TensorName& name) const;

 private:
  std::unordered_map<std::string, std::vector<const TensorRule*>> rules_;
};

// Returns the name of the tensor that a rule makes, with "#" in place of the layer. REQUIRES: the
// rule has a target.
std::string target_of(const TensorRule& rule, const TensorName& name, bool is_whole);

}  // namespace billow::convert
