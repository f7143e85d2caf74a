#include "convert/tensor_rules.h"

#include <utility>

namespace billow::convert {

void RuleTable::add(TensorRules rules) {
  std::unordered_map<std::string_view, std::vector<const TensorRule*>> of_list;
  for (const TensorRule& rule : rules) of_list[rule.source].push_back(&rule);
  for (auto& [name, found] : of_list) rules_.try_emplace(std::string(name), std::move(found));
}

RuleTable::Match RuleTable::find(const TensorName& name) const {
  if (const auto at = rules_.find(name.pattern + name.suffix); at != rules_.end())
    return {&at->second, true};
  const auto at = rules_.find(name.pattern);
  return {at == rules_.end() ? nullptr : &at->second, false};
}

std::string target_of(const TensorRule& rule, const TensorName& name, bool is_whole) {
  std::string target(rule.target);
  if (!is_whole && !has_suffix(target)) target += name.suffix;
  return target;
}

}  // namespace billow::convert
