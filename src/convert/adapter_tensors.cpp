#include "convert/adapter_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "convert/language_tensors.h"

namespace billow::convert {
namespace {

constexpr std::string_view kFirst = ".lora_A.weight";
constexpr std::string_view kSecond = ".lora_B.weight";
constexpr uint64_t kMaxRank = 65536;

struct Pair {
  const SafeTensor* a = nullptr;  // [rank][inputs]
  const SafeTensor* b = nullptr;  // [outputs][rank]
  std::string module;             // name in the model: "model.layers.0.self_attn.q_proj"

  uint64_t rank() const { return a->shape[0]; }
  uint64_t n_inputs() const { return a->shape[1]; }
  uint64_t n_outputs() const { return b->shape[0]; }
};

[[noreturn]] void refuse(std::string_view tensor, std::string_view what) {
  throw Error(ErrorCode::kUnsupported, fmt::format("tensor '{}' {}", tensor, what));
}

[[noreturn]] void refuse_shape(const SafeTensor& tensor) {
  throw Error(ErrorCode::kInvalidInput,
              fmt::format("tensor '{}' does not fit the other half of its pair", tensor.name));
}

// Removes the prefixes of the two objects that peft wraps around the model.
std::string module_of(std::string_view name, std::string_view end) {
  name.remove_suffix(end.size());
  for (const std::string_view prefix : {"base_model.model.", "base_model."}) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    break;
  }
  return std::string(name);
}

std::map<std::string, Pair> pairs_of(Weights& weights) {
  std::map<std::string, Pair> pairs;
  for (const std::string& name : weights.names()) {
    const bool is_first = name.ends_with(kFirst);
    if (!is_first && !name.ends_with(kSecond)) {
      const bool is_of_tokens = name.find(".lora_embedding_") != std::string::npos;
      refuse(name, is_of_tokens ? "changes a table of tokens: only linear layers can be converted"
                                : "is not half of a LoRA pair: merge the adapter into the model");
    }
    const SafeTensor* tensor = weights.take(name);
    if (tensor->shape.size() != 2 || std::ranges::count(tensor->shape, uint64_t{0}) != 0)
      refuse(name, "is not a matrix: only linear layers can be converted");
    require_known_type(*tensor, name);
    const std::string module = module_of(name, is_first ? kFirst : kSecond);
    Pair& pair = pairs[module];
    pair.module = module;
    (is_first ? pair.a : pair.b) = tensor;
  }
  for (const auto& [module, pair] : pairs) {
    if (pair.a == nullptr || pair.b == nullptr) {
      const std::string& there = (pair.a == nullptr ? pair.b : pair.a)->name;
      throw Error(
          ErrorCode::kInvalidInput,
          fmt::format("tensor '{}' is present, but the other half of its pair is missing", there));
    }
    if (pair.b->shape[1] != pair.rank() || pair.rank() > kMaxRank) refuse_shape(*pair.b);
  }
  if (pairs.empty()) throw Error(ErrorCode::kInvalidInput, "the adapter has no tensors");
  return pairs;
}

class Planner {
 public:
  Planner(const AdapterSettings& settings, const LanguageFamily& family, const ModelConfig& config,
          Weights& weights)
      : settings_(settings), family_(family), config_(config), weights_(weights) {}

  AdapterPlan plan() {
    pairs_ = pairs_of(weights_);
    choose_alpha();
    std::vector<std::string> names;
    for (const auto& [module, pair] : pairs_) names.push_back(put_changed(pair));
    for (const PlannedTensor& matrix : plan_language_matrices(family_, config_, weights_, names))
      add(matrix);
    for (const auto& [changed, pair] : pair_of_)
      if (!used_.contains(pair)) {
        refuse(pair->a->name,
               fmt::format("changes a matrix that the GGUF file of a {} does not have",
                           config_.class_name()));
      }
    return std::move(plan_);
  }

 private:
  // If one alpha gives all pairs their factors, uses that alpha. Otherwise uses the alpha of the
  // file and scales the second matrices of the pairs to compensate.
  void choose_alpha() {
    const Pair& first = pairs_.begin()->second;
    const double wanted = alpha_of(first);
    const bool is_common = std::ranges::all_of(
        pairs_, [&](const auto& entry) { return alpha_of(entry.second) == wanted; });
    plan_.alpha = is_common || settings_.alpha == 0 ? wanted : settings_.alpha;
    if (plan_.alpha == 0)
      throw Error(ErrorCode::kUnsupported,
                  "adapter_config.json: \"lora_alpha\" is 0, so the adapter changes nothing");
  }

  double alpha_of(const Pair& pair) const { return settings_.alpha_of(pair.module, pair.rank()); }

  // Adds a placeholder for the matrix that a pair changes. The rules look up its name and shape;
  // nothing reads its bytes.
  std::string put_changed(const Pair& pair) {
    SafeTensor changed = *pair.b;
    changed.name = pair.module + ".weight";
    changed.dtype = "F32";
    changed.shape = {pair.n_outputs(), pair.n_inputs()};
    if (settings_.stores_turned) std::swap(changed.shape[0], changed.shape[1]);
    std::string name = changed.name;
    const SafeTensor* there = weights_.put(name, std::move(changed), [](uint64_t, auto) {});
    pair_of_.emplace(there, &pair);
    return name;
  }

  void add(const PlannedTensor& matrix) {
    PlannedTensor first;
    PlannedTensor second;
    first.name = matrix.name + ".lora_a";
    second.name = matrix.name + ".lora_b";
    for (const TensorPart& part : matrix.parts) {
      const auto found = pair_of_.find(part.source);
      if (found == pair_of_.end()) refuse(matrix.name, "has parts that the adapter does not have");
      const Pair& pair = *found->second;
      used_.insert(&pair);
      first.parts.push_back(first_half(pair, part));
      second.parts.push_back(second_half(pair, part));
      const bool is_alike = first.parts.front().n_rows == first.parts.back().n_rows;
      if (!is_alike) refuse(pair.a->name, "has another rank than the other parts of its tensor");
    }
    first.shape = shape_of(first, matrix);
    second.shape = shape_of(second, matrix);
    plan_.tensors.push_back(std::move(first));
    plan_.tensors.push_back(std::move(second));
  }

  static std::vector<uint64_t> shape_of(const PlannedTensor& half, const PlannedTensor& matrix) {
    const TensorPart& part = half.parts.front();
    std::vector<uint64_t> shape{part.row_len, part.n_rows};
    const bool is_stack = matrix.shape.size() == 3;
    if (is_stack || half.parts.size() > 1) shape.push_back(half.parts.size());
    return shape;
  }

  // Applies the rules for the columns of W.
  TensorPart first_half(const Pair& pair, const TensorPart& part) const {
    check(pair, part);
    TensorPart half;
    half.source = pair.a;
    half.row_len = pair.n_inputs();
    half.n_rows = pair.rank();
    half.column_of = part.column_of;
    return half;
  }

  // Applies the rules for the rows of W.
  TensorPart second_half(const Pair& pair, const TensorPart& part) const {
    TensorPart half;
    half.source = pair.b;
    half.row_len = pair.rank();
    half.n_rows = part.n_rows;
    half.row_of = part.turned_rows == 0 ? part.row_of : part.turned_row_of;
    half.steps = part.steps;
    const double correction = alpha_of(pair) / plan_.alpha;
    if (correction != 1) {
      half.steps.push_back(
          {.what = Arithmetic::kMultiply, .operand = static_cast<float>(correction)});
    }
    return half;
  }

  void check(const Pair& pair, const TensorPart& part) const {
    const bool is_turned = part.turned_rows != 0;
    if (is_turned != settings_.stores_turned) {
      refuse(pair.a->name, is_turned ? "changes a matrix that the model stores turned, but "
                                       "\"fan_in_fan_out\" of adapter_config.json is not true"
                                     : "changes a matrix that the model does not store turned, but "
                                       "\"fan_in_fan_out\" of adapter_config.json is true");
    }
    const bool is_product = std::ranges::all_of(
        part.steps, [](const ArithmeticStep& step) { return step.what == Arithmetic::kMultiply; });
    const bool keeps_columns = part.result_row_len() == pair.n_inputs();
    const bool keeps_rows = !is_turned || !part.row_of;
    if (!is_product || !keeps_columns || !keeps_rows || part.scales != nullptr) {
      refuse(pair.a->name,
             "changes a matrix that GGUF stores in another form: merge the adapter into the model");
    }
  }

  const AdapterSettings& settings_;
  const LanguageFamily& family_;
  const ModelConfig& config_;
  Weights& weights_;
  std::map<std::string, Pair> pairs_;
  std::unordered_map<const SafeTensor*, const Pair*> pair_of_;
  std::set<const Pair*> used_;
  AdapterPlan plan_;
};

}  // namespace

AdapterPlan plan_adapter(const AdapterSettings& settings, const LanguageFamily& family,
                         const ModelConfig& config, Weights& weights) {
  return Planner(settings, family, config, weights).plan();
}

}  // namespace billow::convert
