#include "convert/dense_modules.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "convert/encoder_config.h"
#include "convert/json_document.h"
#include "convert/weights.h"
#include "quant/type.h"

namespace billow::convert {
namespace {

// Names of llama.cpp.
constexpr std::array<std::string_view, 2> kNames{"dense_2", "dense_3"};
constexpr std::string_view kNoActivation = "Identity";
constexpr std::string_view kFile = "model.safetensors";
constexpr const char* kWeight = "linear.weight";
constexpr uint64_t kMaxLength = 65536;

[[noreturn]] void refuse(const std::string& file, std::string_view what) {
  throw Error(ErrorCode::kUnsupported, fmt::format("{}: {}", file, what));
}

void check_config(const Sources& sources, const std::string& folder) {
  const std::string name = folder + "/config.json";
  const auto document = sources.document(name);
  if (!document)
    throw Error(ErrorCode::kInvalidInput,
                name + " is missing, but modules.json names its folder; send it with the weights");
  const DocumentFields fields(*document, name);
  const std::string activation =
      fields.text("activation_function").value_or(std::string(kNoActivation));
  if (!activation.ends_with(kNoActivation))
    refuse(name, fmt::format("the activation '{}' is not supported", activation));
  if (fields.flag("bias").value_or(false)) refuse(name, "a bias is not supported");
}

// REQUIRES: `file` is named kFile, as if the weights were in the outermost folder.
PlannedTensor read_weight(const SourceFile& file) {
  Weights weights{Sources(std::span(&file, 1))};
  const SafeTensor* tensor = weights.take(kWeight);
  if (tensor == nullptr || tensor->shape.size() != 2 || tensor->shape[0] > kMaxLength ||
      tensor->shape[1] > kMaxLength)
    refuse(file.name, fmt::format("there is no matrix '{}'", kWeight));
  if (!weights.left().empty())
    refuse(file.name, fmt::format("tensor '{}' is not supported", weights.left().front()));
  require_known_type(*tensor, kWeight);
  PlannedTensor layer;
  layer.n_rows = tensor->shape[0];
  layer.row_len = tensor->shape[1];
  layer.is_matrix = true;
  const quant::TypeRow& type = *quant::find_type(tensor->dtype);
  std::vector<std::byte> bytes(quant::row_bytes(type.type, layer.row_len) * layer.n_rows);
  weights.read(*tensor, 0, bytes);
  layer.values.resize(layer.n_rows * layer.row_len);
  type.decode(bytes.data(), layer.values.size(), layer.values.data());
  return layer;
}

PlannedTensor read_layer(const Sources& sources, const std::string& folder, std::string_view name) {
  check_config(sources, folder);
  const std::string path = fmt::format("{}/{}", folder, kFile);
  const SourceFile* file = sources.find(path);
  if (file == nullptr)
    throw Error(ErrorCode::kInvalidInput,
                path + " is missing, but modules.json names its folder; send it with the weights");
  try {
    PlannedTensor layer = read_weight({std::string(kFile), file->path});
    layer.name = fmt::format("{}.weight", name);
    return layer;
  } catch (const Error& error) {
    const std::string_view why = error.what();
    throw Error(error.code(), why.starts_with(kFile) ? fmt::format("{}/{}", folder, why)
                                                     : fmt::format("{}: {}", path, why));
  }
}

}  // namespace

void add_dense_modules(const Sources& sources, std::string_view architecture, uint64_t n_embd,
                       std::vector<PlannedTensor>& plan, gguf::Writer& writer) {
  const std::vector<std::string> folders = dense_folders(sources);
  if (folders.empty()) return;
  if (folders.size() != kNames.size())
    refuse("modules.json",
           fmt::format("{} modules 'Dense' are not supported, only two", folders.size()));
  std::vector<PlannedTensor> layers;
  for (size_t i = 0; i < kNames.size(); ++i)
    layers.push_back(read_layer(sources, folders[i], kNames[i]));
  const bool fits = layers[0].row_len == n_embd && layers[1].n_rows == n_embd &&
                    layers[0].n_rows == layers[1].row_len;
  if (!fits)
    refuse(folders[1] + "/model.safetensors",
           fmt::format("two dense layers must have {} inputs and outputs", n_embd));
  for (size_t i = 0; i < kNames.size(); ++i) {
    const std::string key = fmt::format("{}.{}", architecture, kNames[i]);
    writer.set_uint(key + "_feat_in", static_cast<uint32_t>(layers[i].row_len));
    writer.set_uint(key + "_feat_out", static_cast<uint32_t>(layers[i].n_rows));
    plan.push_back(std::move(layers[i]));
  }
}

}  // namespace billow::convert
