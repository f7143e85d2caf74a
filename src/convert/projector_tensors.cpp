#include "convert/projector_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "convert/tensor_name.h"

namespace billow::convert {
namespace {

bool is_of_pictures(std::string_view name) { return is_of_other_part(name) && !is_of_sounds(name); }

// Returns the type of a tensor in the file. Readers want small tensors and position tables in F32.
// They cannot use BF16 for the embedding of patches and for what merges patches.
quant::Type type_of(const ProjectorFamily& family, std::string_view name, size_t n_dims,
                    quant::Type matrix_type) {
  const bool is_of_patches = name.starts_with("v.patch_embd.weight");
  if (n_dims <= 1 || name.ends_with("_norm.weight")) return quant::Type::kF32;
  if (is_of_patches && family.keeps_patches_in_f32) return quant::Type::kF32;
  if (is_of_patches || name == "mm.patch_merger.weight")
    return matrix_type == quant::Type::kF16 ? quant::Type::kF16 : quant::Type::kF32;
  if (!name.ends_with(".weight") || name == "v.position_embd.weight") return quant::Type::kF32;
  if (family.keeps_output_in_f16 && name == family.output) return quant::Type::kF16;
  return matrix_type;
}

[[noreturn]] void missing(std::string_view name) {
  throw Error(ErrorCode::kInvalidInput,
              fmt::format("the tensor that becomes '{}' is missing", name));
}

class Planner {
 public:
  Planner(const ProjectorFamily& family, const ProjectorModel& model, const ProjectorSizes& sizes,
          Weights& weights, quant::Type matrix_type)
      : family_(family), model_(model), sizes_(sizes), weights_(weights), type_(matrix_type) {
    for (const TensorRules rules : family.rules) rules_.add(rules);
  }

  std::vector<PlannedTensor> plan(uint32_t n_text) {
    for (const std::string& name : weights_.names()) {
      if (is_of_pictures(name) && !is_of_no_use(name)) add(name);
    }
    check(n_text);
    std::vector<PlannedTensor> plan;
    for (auto& [place, tensor] : tensors_) plan.push_back(std::move(tensor));
    return plan;
  }

 private:
  using Place = std::pair<uint32_t, std::string>;  // 0 or layer + 1, and the name in the file

  void add(const std::string& stored) {
    std::string name = picture_name(stored);
    if (family_.rename != nullptr) name = family_.rename(model_, std::move(name));
    const TensorName parsed = parse_tensor_name(name);
    const auto [rules, is_whole] = rules_.find(parsed);
    const SafeTensor* source = weights_.take(stored);
    if (rules == nullptr) {
      if (name.starts_with("vision_tower.head.")) return;  // for training only
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("tensor '{}' has no known use in the vision part of a {}", stored,
                              family_.projector));
    }
    for (const TensorRule* rule : *rules) {
      if (rule->target.empty()) continue;
      PlannedTensor tensor;
      tensor.name = filled(target_of(*rule, parsed, is_whole), parsed.layer.value_or(0));
      const bool is_of_layer = tensor.name.starts_with("v.blk.");
      if (is_of_layer && parsed.layer.value_or(0) >= sizes_.n_layers) {
        throw Error(ErrorCode::kInvalidInput,
                    fmt::format("tensor '{}' is of a layer that config.json does not have: it has "
                                "{} layers for pictures",
                                stored, sizes_.n_layers));
      }
      Shaping shaping(model_.vision, weights_, *source, stored, parsed.layer.value_or(0));
      if (rule->shape != nullptr) rule->shape(shaping);
      const std::vector<uint64_t> shape = shaping.file_shape();
      tensor.shape.assign(shape.rbegin(), shape.rend());
      tensor.type = type_of(family_, tensor.name, shape.size(), type_);
      tensor.parts.push_back(std::move(shaping).finish());
      Place place(is_of_layer ? *parsed.layer + 1 : 0, tensor.name);
      if (!tensors_.try_emplace(std::move(place), std::move(tensor)).second) {
        throw Error(ErrorCode::kInvalidInput,
                    fmt::format("tensor '{}' and another one would both become '{}'", stored,
                                filled(rule->target, parsed.layer.value_or(0))));
      }
    }
  }

  const PlannedTensor* find(uint32_t place, const std::string& name) const {
    const auto at = tensors_.find({place, name});
    return at == tensors_.end() ? nullptr : &at->second;
  }

  void require_shape(uint32_t place, const std::string& name,
                     const std::vector<uint64_t>& shape) const {
    const PlannedTensor* tensor = find(place, name);
    if (tensor == nullptr) missing(name);
    if (tensor->shape == shape) return;
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("the tensor that becomes '{}' has the shape {}, but config.json "
                            "requires {}",
                            name, fmt::join(tensor->shape, " x "), fmt::join(shape, " x ")));
  }

  // Checks that no layer and no part of a layer is missing, and that sizes fit config.json.
  void check(uint32_t n_text) const {
    const uint64_t n = sizes_.n_embd;
    const uint64_t side = sizes_.patch_size;
    const PlannedTensor* patches = find(0, "v.patch_embd.weight");
    if (patches == nullptr) missing("v.patch_embd.weight");
    if (patches->shape.size() == 2)
      require_shape(0, "v.patch_embd.weight", {3 * side * side, n});
    else
      require_shape(0, "v.patch_embd.weight", {side, side, 3, n});
    const PlannedTensor* output = find(0, std::string(family_.output));
    if (output == nullptr) missing(family_.output);
    if (output->shape.size() != 2 || output->shape[family_.turns_output ? 0 : 1] != n_text) {
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("the tensor that becomes '{}' does not make rows of {} numbers, the "
                              "width of the text model",
                              family_.output, n_text));
    }
    std::set<std::string> parts;
    for (uint32_t layer = 0; layer < sizes_.n_layers; ++layer) {
      const std::string prefix = fmt::format("v.blk.{}.", layer);
      const uint32_t place = layer + 1;
      require_shape(place, prefix + "ln1.weight", {n});
      require_shape(place, prefix + "ln2.weight", {n});
      require_shape(place, prefix + "attn_out.weight", {n, n});
      require_shape(place, prefix + "ffn_up.weight", {n, sizes_.n_ff});
      require_shape(place, prefix + "ffn_down.weight", {sizes_.n_ff, n});
      if (find(place, prefix + "attn_qkv.weight") == nullptr) {
        for (const char* part : {"attn_q.weight", "attn_k.weight", "attn_v.weight"})
          require_shape(place, prefix + part, {n, n});
      }
      std::set<std::string> of_layer;
      for (auto at = tensors_.lower_bound({place, ""});
           at != tensors_.end() && at->first.first == place; ++at)
        of_layer.insert(at->second.name.substr(prefix.size()));
      if (layer == 0) parts = of_layer;
      for (const std::string& part : parts)
        if (!of_layer.contains(part)) missing(prefix + part);
      for (const std::string& part : of_layer)
        if (!parts.contains(part)) missing("v.blk.0." + part);
    }
  }

  const ProjectorFamily& family_;
  const ProjectorModel& model_;
  const ProjectorSizes& sizes_;
  Weights& weights_;
  const quant::Type type_;
  RuleTable rules_;
  std::map<Place, PlannedTensor> tensors_;
};

}  // namespace

bool has_picture_tensors(const Weights& weights) {
  return std::ranges::any_of(weights.names(), is_of_pictures);
}

std::vector<PlannedTensor> plan_projector(const ProjectorFamily& family,
                                          const ProjectorModel& model, const ProjectorSizes& sizes,
                                          uint32_t n_text, Weights& weights,
                                          quant::Type matrix_type) {
  return Planner(family, model, sizes, weights, matrix_type).plan(n_text);
}

}  // namespace billow::convert
