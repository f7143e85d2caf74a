// Completes embedded projectors that differ from separate projector files in more than names.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "gguf/tensor_type.h"
#include "vision/embedded_family.h"
#include "vision/family.h"

namespace billow::vision {
namespace {

constexpr uint64_t kMaxLayers = 4096;

[[noreturn]] void fail(const gguf::File& model, ErrorCode code, const std::string& why) {
  throw Error(code, model.path() + ": " + why);
}

// The keys of the model's file that begin with its architecture.
class Keys {
 public:
  explicit Keys(const gguf::File& model)
      : model_(model), prefix_(std::string(model.require_string("general.architecture")) + ".") {}

  std::string name(std::string_view key) const { return prefix_ + std::string(key); }
  std::optional<uint64_t> number(std::string_view key) const { return model_.get_uint(name(key)); }
  // Returns a number from 1 to max.
  uint64_t size(std::string_view key, uint64_t max) const {
    const uint64_t value = model_.require_uint(name(key));
    if (value == 0 || value > max)
      refuse(key, "is " + std::to_string(value) + "; it must be from 1 to " + std::to_string(max));
    return value;
  }
  // Returns the indices of layers in the array; empty if the key is missing.
  std::vector<uint64_t> layers(std::string_view key, uint64_t n_layers) const {
    const gguf::Array* array = model_.get_array(name(key));
    std::vector<uint64_t> layers;
    if (array == nullptr) return layers;
    const bool is_number = array->element_type != gguf::ValueType::kString &&
                           array->element_type != gguf::ValueType::kArray;
    if (!is_number || array->n > n_layers) refuse(key, "is not a list of layers");
    for (uint64_t i = 0; i < array->n; ++i) {
      const int64_t layer = array->integer(i);
      if (layer < 0 || static_cast<uint64_t>(layer) >= n_layers)
        refuse(key, "has " + std::to_string(layer) + ", which is not a layer");
      layers.push_back(static_cast<uint64_t>(layer));
    }
    return layers;
  }
  [[noreturn]] void refuse(std::string_view key, const std::string& why,
                           ErrorCode code = ErrorCode::kInvalidInput) const {
    fail(model_, code, name(key) + " " + why);
  }

 private:
  const gguf::File& model_;
  std::string prefix_;
};

void set_number(EmbeddedProjector& projector, std::string_view key, uint64_t number) {
  constexpr uint64_t kMax = uint64_t{1} << 31;  // rule_of() rejects much smaller numbers
  projector.keys.set_uint("clip.vision." + std::string(key),
                          static_cast<uint32_t>(std::min(number, kMax)));
}

EmbeddedTensor* find(EmbeddedProjector& projector, std::string_view name) {
  const auto at = std::ranges::find(projector.tensors, name, &EmbeddedTensor::name);
  return at == projector.tensors.end() ? nullptr : &*at;
}

// Copies every second block of values: the blocks of one frame.
void copy_frame(std::span<const std::byte> from, size_t block_bytes, size_t frame,
                std::span<std::byte> to) {
  for (size_t at = frame * block_bytes; !to.empty(); at += 2 * block_bytes) {
    std::memcpy(to.data(), from.data() + at, block_bytes);
    to = to.subspan(block_bytes);
  }
}

// Splits the patch embedding into one tensor per frame. The file has [patch][patch][2][3 n_embd].
void split_frames(const gguf::File& model, EmbeddedProjector& projector) {
  constexpr uint64_t kColors = 3;
  EmbeddedTensor* both = find(projector, "v.patch_embd.weight");
  if (both == nullptr || find(projector, "v.patch_embd.weight.1") != nullptr) return;
  const std::vector<uint64_t> shape = both->shape;
  const gguf::TensorType* type = gguf::find_tensor_type(both->type);
  if (shape.size() != 4 || shape[2] != 2 || shape[3] % kColors != 0 || type == nullptr ||
      type->group_len != 1) {
    fail(model, ErrorCode::kUnsupported,
         "tensor " + both->source->name +
             " is not a patch embedding of two frames in floats, as in Ollama's files");
  }
  const size_t block_bytes = shape[0] * shape[1] * type->group_bytes;
  const gguf::TensorInfo* source = both->source;
  const auto part = [&](const char* name, size_t frame) {
    return EmbeddedTensor{.name = name,
                          .type = source->type,
                          .shape = {shape[0], shape[1], kColors, shape[3] / kColors},
                          .source = source,
                          .make = [source, block_bytes, frame](std::span<std::byte> out) {
                            copy_frame(source->data, block_bytes, frame, out);
                          }};
  };
  *both = part("v.patch_embd.weight", 0);
  projector.tensors.push_back(part("v.patch_embd.weight.1", 1));
}

// Renames the projectors of layers from their index in `layers` to the number of their layer.
void number_deep_projectors(const gguf::File& model, const std::vector<uint64_t>& layers,
                            EmbeddedProjector& projector) {
  constexpr std::array kParts = {Renaming{"linear_fc1", "fc1"}, Renaming{"linear_fc2", "fc2"}};
  for (EmbeddedTensor& tensor : projector.tensors) {
    for (const std::string_view prefix : {"v.deepstack.", "v.deepstack_merger."}) {
      if (!tensor.name.starts_with(prefix)) continue;
      const char* const end = tensor.name.data() + tensor.name.size();
      size_t index = 0;
      const auto [rest, error] = std::from_chars(tensor.name.data() + prefix.size(), end, index);
      if (error != std::errc() || rest == end || *rest != '.' || index >= layers.size())
        fail(model, ErrorCode::kInvalidInput,
             "tensor " + tensor.source->name + " belongs to no layer of " +
                 "vision.deepstack_visual_indexes");
      std::string part(rest + 1, end);
      for (const Renaming& row : kParts)
        if (part.starts_with(row.from)) part.replace(0, row.from.size(), row.to);
      tensor.name = "v.deepstack." + std::to_string(layers[index]) + "." + part;
      break;
    }
  }
}

// Reorders rows. In the file, values that rotate together are in different halves of a head. In
// separate projectors, they are adjacent.
void interleave_rows(const gguf::File& model, uint64_t n_heads, EmbeddedTensor& tensor) {
  const uint64_t n_rows = tensor.shape.size() == 2 ? tensor.shape[1] : 0;
  if (n_rows == 0 || n_rows % (2 * n_heads) != 0)
    fail(model, ErrorCode::kInvalidInput,
         "tensor " + tensor.source->name + " does not have the rows of " + std::to_string(n_heads) +
             " heads");
  tensor.make = [source = tensor.source, n_rows,
                 head_len = n_rows / n_heads](std::span<std::byte> out) {
    const size_t row_bytes = source->n_bytes / n_rows;
    for (size_t row = 0; row < n_rows; ++row) {
      const size_t in_head = row % head_len;
      const size_t from = row - in_head + in_head % 2 * (head_len / 2) + in_head / 2;
      std::memcpy(out.data() + row * row_bytes, source->data.data() + from * row_bytes, row_bytes);
    }
  };
}

constexpr std::string_view kClampData = "v.clamp_data";

}  // namespace

void complete_qwen25(const gguf::File& model, EmbeddedProjector& projector) {
  const Keys keys(model);
  constexpr std::string_view kKey = "vision.fullatt_block_indexes";
  const uint64_t n_layers = keys.size("vision.block_count", kMaxLayers);
  const std::vector<uint64_t> whole = keys.layers(kKey, n_layers);
  const uint64_t period = whole.empty() ? 8 : whole.front() + 1;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole[i] + 1 != (i + 1) * period)
      keys.refuse(kKey, "is not regular, which is not supported", ErrorCode::kUnsupported);
  }
  if (!whole.empty() && n_layers / period != whole.size())
    keys.refuse(kKey, "ends too early, which is not supported", ErrorCode::kUnsupported);
  set_number(projector, "n_wa_pattern", period);
}

void complete_qwen3(const gguf::File& model, EmbeddedProjector& projector) {
  const Keys keys(model);
  const uint64_t n_layers = keys.size("vision.block_count", kMaxLayers);
  const std::vector<uint64_t> deep = keys.layers("vision.deepstack_visual_indexes", n_layers);
  std::vector<bool> is_deep(n_layers);
  for (const uint64_t layer : deep) is_deep[layer] = true;
  projector.keys.set_bools("clip.vision.is_deepstack_layers", is_deep);
  number_deep_projectors(model, deep, projector);
  split_frames(model, projector);
  // Ollama's keys of edges contain numbers of pixels. Ignores limits above the default, which
  // Qwen's own files have: see rule.h.
  const auto family = std::ranges::find(families(), "qwen3vl_merger", &Family::projector);
  const uint64_t patch_size = keys.size("vision.patch_size", 1 << 12);
  const uint64_t merge = keys.number("vision.spatial_merge_size").value_or(family->merge);
  const uint64_t max = family->max_tokens * patch_size * patch_size * merge * merge;
  const uint64_t longest = keys.number("vision.longest_edge").value_or(0);
  const uint64_t shortest = keys.number("vision.shortest_edge").value_or(0);
  if (longest != 0 && longest < max) set_number(projector, "image_max_pixels", longest);
  if (shortest != 0 && shortest < max) set_number(projector, "image_min_pixels", shortest);
}

void complete_mistral3(const gguf::File& model, EmbeddedProjector& projector) {
  const uint64_t n_heads = Keys(model).size("vision.attention.head_count", 1 << 16);
  for (EmbeddedTensor& tensor : projector.tensors) {
    if (tensor.name.starts_with("v.blk.") &&
        (tensor.name.ends_with(".attn_q.weight") || tensor.name.ends_with(".attn_k.weight")))
      interleave_rows(model, n_heads, tensor);
  }
}

void complete_llama4(const gguf::File& model, EmbeddedProjector& projector) {
  const Keys keys(model);
  constexpr std::string_view kKey = "vision.pixel_shuffle_ratio";
  const double ratio = model.get_float(keys.name(kKey)).value_or(0.5);
  const double merge = std::round(1.0 / ratio);
  if (!(merge >= 1.0 && merge <= 64.0) || std::abs(merge * ratio - 1.0) > 1e-3)
    keys.refuse(kKey, "is " + std::to_string(ratio) + "; it must be 1 divided by a whole number");
  set_number(projector, "projector.scale_factor", static_cast<uint64_t>(merge));
}

void complete_gemma4(const gguf::File& model, EmbeddedProjector& projector) {
  EmbeddedTensor* packed = find(projector, kClampData);
  if (packed == nullptr) return;
  const gguf::TensorInfo* source = packed->source;
  std::erase_if(projector.tensors,
                [](const EmbeddedTensor& tensor) { return tensor.name == kClampData; });
  const bool has_own = std::ranges::any_of(projector.tensors, [](const EmbeddedTensor& tensor) {
    return tensor.name.ends_with(".input_min");
  });
  if (has_own) return;  // v.clamp_data only repeats these limits
  constexpr std::array kProducts = {"attn_q",   "attn_k", "attn_v",  "attn_out",
                                    "ffn_gate", "ffn_up", "ffn_down"};
  constexpr std::array kLimits = {".input_min", ".input_max", ".output_min", ".output_max"};
  const uint64_t n_layers = Keys(model).size("vision.block_count", kMaxLayers);
  const gguf::TensorType* type = gguf::find_tensor_type(source->type);
  if (type == nullptr || type->name != "F32" ||
      source->n_elements() != (n_layers * kProducts.size() + 1) * kLimits.size())
    fail(model, ErrorCode::kInvalidInput,
         "tensor v.clamp_data does not have 4 limits in F32 for each product");
  size_t at = 0;
  const auto add = [&](const std::string& product) {
    for (const char* limit : kLimits) {
      projector.tensors.push_back({.name = product + limit,
                                   .type = source->type,
                                   .shape = {1},
                                   .source = source,
                                   .make = [source, at](std::span<std::byte> out) {
                                     std::memcpy(out.data(), source->data.data() + at, out.size());
                                   }});
      at += sizeof(float);
    }
  };
  for (uint64_t layer = 0; layer < n_layers; ++layer)
    for (const char* product : kProducts) add("v.blk." + std::to_string(layer) + "." + product);
  add("mm.input_projection");
}

void complete_lfm2(const gguf::File& model, EmbeddedProjector& projector) {
  const Keys keys(model);
  const auto family = std::ranges::find(families(), "lfm2", &Family::projector);
  for (const std::string_view key : {"vision.do_image_splitting", "vision.use_thumbnail"}) {
    if (!model.get_bool(keys.name(key)).value_or(true))
      keys.refuse(key, "is false, which is not supported", ErrorCode::kUnsupported);
  }
  if (keys.number("vision.tile_size").value_or(family->tile_size) != family->tile_size)
    keys.refuse("vision.tile_size", "is not " + std::to_string(family->tile_size),
                ErrorCode::kUnsupported);
  const uint64_t patch_size = keys.size("vision.patch_size", 1 << 12);
  const uint64_t merge = keys.number("vision.projector.scale_factor").value_or(family->merge);
  constexpr uint64_t kMaxTokens = 1 << 16;  // rule_of() limits pixels, too
  const auto set_pixels = [&](std::string_view from, std::string_view to) {
    if (keys.number(from))
      set_number(projector, to,
                 keys.size(from, kMaxTokens) * patch_size * patch_size * merge * merge);
  };
  set_pixels("vision.min_image_tokens", "image_min_pixels");
  set_pixels("vision.max_image_tokens", "image_max_pixels");
}

}  // namespace billow::vision
