#include "convert/language_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "convert/language_parts.h"
#include "convert/tensor_name.h"
#include "convert/tensor_rules.h"

namespace billow::convert {
namespace {

constexpr uint32_t kNoLayer = UINT32_MAX;

// Tensors that become one tensor, by the last number of their names.
struct Group {
  const TensorRule* rule = nullptr;
  std::string target;
  std::string first_name;
  uint32_t layer = 0;
  std::map<uint32_t, std::pair<const SafeTensor*, std::string>> sources;
};

class Planner {
 public:
  Planner(const LanguageFamily& family, const ModelConfig& config, Weights& weights)
      : family_(family),
        config_(config),
        weights_(weights),
        n_layers_(config.n_layers()),
        ties_output_(config.flag("tie_word_embeddings")) {
    for (const TensorRules rules : family.rules) rules_.add(rules);
  }

  LanguagePlan plan() {
    plan_names(weights_.names());
    require_all_used();
    check_language_parts(plan_.tensors, n_layers_ + plan_.n_predicting, config_.n_embd());
    return std::move(plan_);
  }

  std::vector<PlannedTensor> plan_only(const std::vector<std::string>& names) {
    plan_names(names);
    return std::move(plan_.tensors);
  }

 private:
  void plan_names(const std::vector<std::string>& names) {
    for (const std::string& name : names) sort_in(name);
    for (auto& [place, group] : groups_) plan_.tensors.push_back(planned(group));
  }

  void sort_in(const std::string& stored) {
    if (is_of_other_part(stored) || is_of_no_use(stored)) {
      if (is_of_other_part(stored))
        ++(is_of_sounds(stored) ? plan_.n_of_sounds : plan_.n_of_pictures);
      weights_.take(stored);
      return;
    }
    std::string name = without_part(stored);
    if (family_.rename != nullptr) name = family_.rename(config_, std::move(name));
    if (name.empty()) {
      weights_.take(stored);
      if (stored.find("mtp") != std::string::npos) ++plan_.n_left_predicting;
      return;
    }
    const TensorName parsed = parse_tensor_name(name);
    if (parsed.layer && *parsed.layer >= n_layers_ && name.find("layers.") != std::string::npos) {
      if (family_.predicting == Predicting::kLeftOut) {
        ++plan_.n_left_predicting;
        weights_.take(stored);
        return;
      }
      if (family_.predicting == Predicting::kUnknown || *parsed.layer >= 2 * n_layers_) return;
      plan_.n_predicting = std::max(plan_.n_predicting, *parsed.layer + 1 - n_layers_);
    }
    const auto [rules, is_whole] = rules_.find(parsed);
    if (rules == nullptr) return;
    for (const TensorRule* rule : *rules) put(*rule, parsed, stored, name, is_whole);
  }

  void put(const TensorRule& rule, const TensorName& parsed, const std::string& stored,
           const std::string& name, bool is_whole) {
    const SafeTensor* tensor = weights_.take(stored);
    if (rule.target.empty() || (rule.target == "output" && ties_output_)) return;
    std::string target = target_of(rule, parsed, is_whole);
    const bool is_of_layer = target.find('#') != std::string::npos;
    const uint32_t layer = is_of_layer ? parsed.layer.value_or(0) : kNoLayer;
    if (is_of_layer) target = filled(target, layer);
    // Tensors without a layer come first, because readers expect the token table there.
    Group& group = groups_[{is_of_layer ? layer + 1 : 0, target}];
    if (group.rule != nullptr && group.rule != &rule) twice(name, group);
    group.rule = &rule;
    group.target = target;
    group.layer = layer == kNoLayer ? 0 : layer;
    if (group.first_name.empty()) group.first_name = name;
    const std::optional<uint32_t> number = is_of_layer ? parsed.number : parsed.layer;
    if (!group.sources.try_emplace(number.value_or(0), tensor, name).second) twice(name, group);
  }

  [[noreturn]] static void twice(const std::string& name, const Group& group) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("tensors '{}' and '{}' would both become {}",
                                                      group.first_name, name, group.target));
  }

  PlannedTensor planned(const Group& group) {
    PlannedTensor tensor;
    tensor.name = group.target;
    std::vector<uint64_t> shape;
    uint32_t number = 0;
    for (const auto& [at, source] : group.sources) {
      const auto& [stored, name] = source;
      if (is_stacked(group) && at != number++) {
        throw Error(ErrorCode::kInvalidInput,
                    fmt::format("tensor '{}' is present, but number {} of its kind is missing",
                                name, number - 1));
      }
      Shaping shaping(config_, weights_, *stored, name, group.layer);
      if (group.rule->shape != nullptr) group.rule->shape(shaping);
      if (family_.finish != nullptr) family_.finish(shaping);
      if (!shape.empty() && shape != shaping.file_shape()) {
        shaping.refuse("has another shape than the others of its kind");
      }
      shape = shaping.file_shape();
      tensor.parts.push_back(std::move(shaping).finish());
    }
    if (is_stacked(group)) shape.insert(shape.begin(), group.sources.size());
    const bool is_packed = tensor.parts.front().scales != nullptr;
    if (is_packed) {
      shape.back() *= 2;  // two codes per byte
      tensor.type = quant::Type::kMXFP4;
    } else if (is_kept_in_f32(tensor.name, shape.size()) && !group.rule->may_be_quantised) {
      tensor.type = quant::Type::kF32;
    }
    tensor.shape.assign(shape.rbegin(), shape.rend());
    return tensor;
  }

  static bool is_stacked(const Group& group) {
    const std::string_view source = group.rule->source;
    return source.find('*') != std::string_view::npos ||
           (source.ends_with(".#") && group.rule->target.find('#') == std::string_view::npos);
  }

  void require_all_used() const {
    const std::vector<std::string> left = weights_.left();
    if (left.empty()) return;
    throw Error(ErrorCode::kInvalidInput, fmt::format("tensor '{}' has no known use in a {}",
                                                      left.front(), config_.class_name()));
  }

  const LanguageFamily& family_;
  const ModelConfig& config_;
  Weights& weights_;
  const uint32_t n_layers_;
  const bool ties_output_;
  RuleTable rules_;
  std::map<std::pair<uint32_t, std::string>, Group> groups_;
  LanguagePlan plan_;
};

}  // namespace

bool is_kept_in_f32(std::string_view name, size_t n_dims) {
  constexpr std::string_view kEnds[] = {"_norm.weight",
                                        "ffn_gate_inp.weight",
                                        "ffn_gate_inp_shexp.weight",
                                        "position_embd.weight",
                                        "ssm_conv1d.weight",
                                        "shortconv.conv.weight",
                                        "time_mix_w1.weight",
                                        "time_mix_w2.weight",
                                        "time_mix_lerp_fused.weight",
                                        "ssm_conv1d_q.weight",
                                        "ssm_conv1d_k.weight",
                                        "ssm_conv1d_v.weight",
                                        "altup_correct_coef.weight",
                                        "altup_predict_coef.weight"};
  if (n_dims <= 1 || !name.ends_with(".weight")) return true;
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

LanguagePlan plan_language_tensors(const LanguageFamily& family, const ModelConfig& config,
                                   Weights& weights) {
  return Planner(family, config, weights).plan();
}

std::vector<PlannedTensor> plan_language_matrices(const LanguageFamily& family,
                                                  const ModelConfig& config, Weights& weights,
                                                  const std::vector<std::string>& names) {
  return Planner(family, config, weights).plan_only(names);
}

}  // namespace billow::convert
