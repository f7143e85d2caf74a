#include "vision/embedded_projector.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "gguf/tensor_type.h"
#include "vision/embedded_family.h"

namespace billow::vision {
namespace {

constexpr std::string_view kVision = "clip.vision.";
constexpr std::string_view kLayer = "v.blk.";

bool is_of_projector(std::string_view name) {
  return name.starts_with("v.") || (name.starts_with("mm.") && !name.starts_with("mm.a."));
}

const EmbeddedFamily* family_of(const gguf::File& model) {
  const auto architecture = model.get_string("general.architecture");
  const auto family =
      std::ranges::find(embedded_families(), architecture, &EmbeddedFamily::architecture);
  return family == embedded_families().end() ? nullptr : &*family;
}

// Replaces the beginning of the name if it is in the list.
std::string renamed(std::string_view name, std::span<const Renaming> list) {
  for (const Renaming& row : list) {
    if (!name.starts_with(row.from)) continue;
    const std::string_view rest = name.substr(row.from.size());
    if (rest.empty() || rest.front() == '.') return std::string(row.to) + std::string(rest);
  }
  return std::string(name);
}

std::string name_in_projector(const std::string& name, const EmbeddedFamily& family) {
  if (!name.starts_with(kLayer)) return renamed(name, family.tensors);
  const size_t dot = name.find('.', kLayer.size());
  if (dot == std::string::npos) return name;
  return name.substr(0, dot + 1) +
         renamed(std::string_view(name).substr(dot + 1), family.layer_tensors);
}

void set_defaults(const EmbeddedFamily& family, gguf::Writer& keys) {
  const std::string vision(kVision);
  keys.set_string("general.architecture", "clip");
  keys.set_string("general.type", "mmproj");
  keys.set_string("clip.projector_type", family.projector);
  keys.set_bool("clip.has_vision_encoder", true);
  if (!family.activation.empty()) keys.set_bool(family.activation, true);
  keys.set_floats(vision + "image_mean", family.mean);
  keys.set_floats(vision + "image_std", family.std);
  for (const DefaultNumber& row : family.defaults) {
    const std::string key = vision + std::string(row.key);
    if (row.real != 0.0f)
      keys.set_float(key, row.real);
    else
      keys.set_uint(key, row.number);
  }
}

void copy_keys(const gguf::File& model, const EmbeddedFamily& family, gguf::Writer& keys) {
  const std::string prefix = std::string(family.architecture) + ".";
  const std::string vision = prefix + "vision.";
  for (const gguf::Entry& entry : model.metadata()) {
    const gguf::Array* array = gguf::as_array(entry.value);
    const bool is_empty = array != nullptr && array->n == 0;
    if (entry.key.starts_with(vision) && !is_empty)
      keys.set(std::string(kVision) + std::string(entry.key.substr(vision.size())), entry.value);
  }
  for (const Renaming& row : family.keys) {
    const gguf::Value* value = model.find(prefix + std::string(row.from));
    if (value != nullptr) keys.set(std::string(kVision) + std::string(row.to), *value);
  }
}

const EmbeddedTensor* find(const EmbeddedProjector& projector, std::string_view name) {
  const auto at = std::ranges::find(projector.tensors, name, &EmbeddedTensor::name);
  return at == projector.tensors.end() ? nullptr : &*at;
}

// Sets sizes that some files lack and that shapes of tensors have.
void set_sizes(const gguf::File& model, const EmbeddedFamily& family,
               EmbeddedProjector& projector) {
  const std::string prefix = std::string(family.architecture) + ".vision.";
  const auto set_size = [&](std::string_view key, uint64_t size) {
    constexpr uint64_t kMax = uint64_t{1} << 30;  // readers refuse far smaller ones
    projector.keys.set_uint(std::string(kVision) + std::string(key),
                            static_cast<uint32_t>(std::min(size, kMax)));
  };
  const auto is_missing = [&](std::string_view key) {
    return model.find(prefix + std::string(key)) == nullptr &&
           std::ranges::find(family.defaults, key, &DefaultNumber::key) == family.defaults.end();
  };
  const EmbeddedTensor* up = find(projector, "v.blk.0.ffn_up.weight");
  if (is_missing("feed_forward_length") && up != nullptr && up->shape.size() == 2)
    set_size("feed_forward_length", up->shape[1]);
  const EmbeddedTensor* grid = find(projector, "v.position_embd.weight");
  const auto patch_size = model.get_uint(prefix + "patch_size");
  if (is_missing("image_size") && grid != nullptr && grid->shape.size() == 2 && patch_size) {
    const auto side = static_cast<uint64_t>(std::sqrt(static_cast<double>(grid->shape[1])));
    set_size("image_size", side * *patch_size);
  }
}

}  // namespace

uint64_t EmbeddedTensor::n_bytes() const {
  const gguf::TensorType& of_type = *gguf::find_tensor_type(type);
  uint64_t n = 1;
  for (const uint64_t size : shape) n *= size;
  return n / of_type.group_len * of_type.group_bytes;
}

bool has_embedded_projector(const gguf::File& model) {
  return family_of(model) != nullptr &&
         std::ranges::any_of(model.tensors(), [](const gguf::TensorInfo& tensor) {
           return tensor.name.starts_with("v.");
         });
}

EmbeddedProjector embedded_projector(const gguf::File& model) {
  const EmbeddedFamily* family = family_of(model);
  if (family == nullptr || !has_embedded_projector(model)) {
    throw Error(ErrorCode::kUnsupported,
                model.path() + ": not a projector, and no projector in it is supported: its " +
                    "architecture is \"" +
                    std::string(model.get_string("general.architecture").value_or("")) + "\"");
  }
  EmbeddedProjector projector;
  set_defaults(*family, projector.keys);
  copy_keys(model, *family, projector.keys);
  for (const gguf::TensorInfo& tensor : model.tensors()) {
    if (!is_of_projector(tensor.name)) continue;
    projector.tensors.push_back(
        {.name = name_in_projector(tensor.name, *family),
         .type = tensor.type,
         .shape = {tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims},
         .source = &tensor});
  }
  set_sizes(model, *family, projector);
  if (family->complete != nullptr) family->complete(model, projector);
  return projector;
}

}  // namespace billow::vision
