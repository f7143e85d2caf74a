#include "convert/quantised_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "convert/decoded_weights.h"
#include "quant/type.h"

namespace billow::convert {
namespace {

constexpr const char* kConfig = "config.json";
constexpr std::string_view kNvfp4 = "NVFP4";

[[noreturn]] void not_known(const std::string& what) {
  throw Error(ErrorCode::kUnsupported, fmt::format("{}: {}", kConfig, what));
}

// The "quantization_config" of config.json. ModelOpt stores it in hf_quant_config.json.
struct Description {
  Document object;
  std::string method;

  DocumentFields fields() const {
    return DocumentFields(object, fmt::format("{}: \"quantization_config\"", kConfig));
  }
};

std::optional<Description> description_of(const Sources& sources) {
  if (const auto config = sources.document(kConfig); config && config->is_object()) {
    for (const Document* part :
         {&*config, config->contains("text_config") && (*config)["text_config"].is_object()
                        ? &(*config)["text_config"]
                        : nullptr}) {
      if (part == nullptr) continue;
      const auto at = part->find("quantization_config");
      if (at == part->end() || at->is_null()) continue;
      Description found{*at, ""};
      found.method = found.fields().text("quant_method").value_or("");
      return found;
    }
  }
  const auto other = sources.document("hf_quant_config.json");
  if (!other) return std::nullopt;
  return Description{*other, "modelopt"};
}

// Returns "base" of "baseSUFFIX".
std::optional<std::string> base_of(const std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  return name.substr(0, name.size() - suffix.size());
}

class Opener {
 public:
  explicit Opener(Weights& weights) : weights_(weights), names_(weights.names()) {}

  void open_fp8(const DocumentFields& fields);
  void open_gptq(const DocumentFields& fields);
  void open_compressed(const DocumentFields& fields);
  void open_modelopt();
  QuantisedCheckpoint finish() { return std::move(result_); }

 private:
  void open_scaled(std::string_view suffix, std::string_view weight_suffix,
                   const std::vector<uint64_t>& block);
  void open_packed(const DocumentFields& weights);
  void open_nvfp4(std::string_view codes, std::string_view scale, std::string_view input,
                  bool is_reciprocal);
  // Takes tensors that describe how activations were quantised.
  void take_unused(std::initializer_list<std::string_view> suffixes);

  const SafeTensor& require(const std::string& name) {
    const SafeTensor* tensor = weights_.take(name);
    if (tensor == nullptr)
      throw Error(ErrorCode::kInvalidInput, fmt::format("tensor '{}' is missing", name));
    return *tensor;
  }
  // Returns the number of a tensor, or 1 if the tensor is missing.
  float single(const std::string& name) {
    const SafeTensor* tensor = weights_.take(name);
    if (tensor == nullptr) return 1;
    const std::vector<float> values = small_tensor(weights_, *tensor, 1);
    if (values.size() != 1 || !std::isfinite(values[0]))
      throw Error(ErrorCode::kInvalidInput, fmt::format("tensor '{}' is not a number", name));
    return values[0];
  }
  // Returns 1 divided by single().
  float reciprocal(const std::string& name) {
    const float value = 1 / single(name);
    if (!std::isfinite(value))
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("tensor '{}' is a divisor, but it is 0 or nearly 0; the model is "
                              "damaged, so get its files again",
                              name));
    return value;
  }
  void put(const std::string& name, const DecodedTensor& decoded);

  Weights& weights_;
  std::vector<std::string> names_;  // names in the files, before any change
  QuantisedCheckpoint result_;
};

void Opener::take_unused(std::initializer_list<std::string_view> suffixes) {
  for (const std::string& name : names_)
    for (const std::string_view suffix : suffixes)
      if (name.ends_with(suffix)) weights_.take(name);
}

void Opener::put(const std::string& name, const DecodedTensor& decoded) {
  SafeTensor tensor{.name = name, .dtype = "F32", .shape = decoded.shape};
  tensor.n_bytes = sizeof(float);
  for (const uint64_t size : decoded.shape) tensor.n_bytes *= size;
  weights_.put(name, std::move(tensor), float_reader(decoded));
}

// Decodes each pair of "baseSUFFIX" and "baseWEIGHT_SUFFIX".
void Opener::open_scaled(std::string_view suffix, std::string_view weight_suffix,
                         const std::vector<uint64_t>& block) {
  for (const std::string& name : names_) {
    const auto base = base_of(name, suffix);
    if (!base) continue;
    const std::string weight = *base + std::string(weight_suffix);
    const SafeTensor& scales = require(name);
    put(weight, decoded_scaled(weights_, require(weight), scales, block));
  }
}

std::vector<uint64_t> block_of(const DocumentFields& fields, const char* name) {
  std::vector<uint64_t> block;
  const Document* value = fields.find(name);
  if (value == nullptr) return block;
  const bool is_pair = value->is_array() && value->size() == 2 &&
                       (*value)[0].is_number_unsigned() && (*value)[1].is_number_unsigned();
  if (!is_pair) fields.refuse(name, "must be two whole numbers");
  for (const Document& size : *value) block.push_back(size.get<uint64_t>());
  return block;
}

void Opener::open_fp8(const DocumentFields& fields) {
  const std::vector<uint64_t> block = block_of(fields, "weight_block_size");
  open_scaled("_scale_inv", "", block);
  open_scaled(".qscale_weight", ".weight", block);
  take_unused({".activation_scale", "_activation_scale", ".qscale_act", ".input_scale"});
}

void Opener::open_gptq(const DocumentFields& fields) {
  const uint64_t n_bits = fields.count("bits").value_or(0);
  if (n_bits != 2 && n_bits != 4 && n_bits != 8)
    not_known(fmt::format("GPTQ with {} bits is not supported (known: 2, 4, 8)", n_bits));
  const std::string format = fields.text("checkpoint_format").value_or("gptq");
  if (format != "gptq" && format != "gptq_v2")
    not_known(
        fmt::format("GPTQ of the format '{}' is not supported (known: gptq, gptq_v2)", format));
  for (const std::string& name : names_) {
    const auto base = base_of(name, ".qweight");
    if (!base) continue;
    const GptqTensors tensors{&require(name), &require(*base + ".qzeros"),
                              &require(*base + ".scales"), &require(*base + ".g_idx")};
    put(*base + ".weight",
        decoded_gptq(weights_, tensors, static_cast<uint32_t>(n_bits), format == "gptq" ? 1 : 0));
  }
}

void Opener::open_packed(const DocumentFields& fields) {
  const uint64_t n_bits = fields.count("num_bits").value_or(0);
  const uint64_t group_len = fields.count("group_size").value_or(0);
  if (n_bits == 0 || n_bits > 8)
    not_known(fmt::format("integers of {} bits are not supported", n_bits));
  if (group_len == 0) fields.refuse("group_size", "is missing");
  if (fields.text("type").value_or("int") != "int") not_known("packed weights must be integers");
  if (fields.text("strategy").value_or("") != "group")
    not_known("packed weights must be scaled by groups (\"strategy\")");
  for (const std::string& name : names_) {
    const auto base = base_of(name, "_packed");
    if (!base) continue;
    const std::vector<float> shape = small_tensor(weights_, require(*base + "_shape"), 2);
    if (shape.size() != 2 || !(shape[0] >= 1) || !(shape[1] >= 1))
      throw Error(ErrorCode::kInvalidInput, fmt::format("tensor '{}_shape' is not a shape", *base));
    const PackedTensors tensors{.codes = &require(name),
                                .scales = &require(*base + "_scale"),
                                .zeros = weights_.take(*base + "_zero_point"),
                                .groups = weights_.take(*base + "_g_idx"),
                                .n_rows = static_cast<uint64_t>(shape[0]),
                                .n_columns = static_cast<uint64_t>(shape[1])};
    put(*base, decoded_packed(weights_, tensors, static_cast<uint32_t>(n_bits), group_len));
  }
}

void Opener::open_compressed(const DocumentFields& fields) {
  const std::string format = fields.text("format").value_or("");
  const Document* groups = fields.find("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty())
    fields.refuse("config_groups", "is missing");
  const bool is_nvfp4 =
      format == "nvfp4-pack-quantized" ||
      (format == "mixed-precision" && std::ranges::all_of(*groups, [](const Document& group) {
         return group.is_object() && group.value("format", "") == "nvfp4-pack-quantized";
       }));
  take_unused({".k_scale", ".v_scale"});
  if (is_nvfp4)
    return open_nvfp4(".weight_packed", ".weight_global_scale", ".input_global_scale", true);
  if (groups->size() != 1) not_known("weights quantised in several ways are not supported");
  const DocumentFields group(*groups->begin(), fields.origin() + ": \"config_groups\"");
  const Document* weights = group.find("weights");
  if (weights == nullptr) group.refuse("weights", "is missing");
  const DocumentFields of_weights(*weights, group.origin());
  take_unused({".input_scale"});
  if (format == "pack-quantized") return open_packed(of_weights);
  if (format == "float-quantized" || format == "int-quantized" || format == "naive-quantized") {
    if (of_weights.find("group_size") != nullptr)
      not_known("weights scaled by groups are only supported in the format 'pack-quantized'");
    return open_scaled(".weight_scale", ".weight", block_of(of_weights, "block_structure"));
  }
  not_known(
      fmt::format("compressed-tensors of the format '{}' are not supported (known: "
                  "float-quantized, int-quantized, naive-quantized, pack-quantized, "
                  "nvfp4-pack-quantized)",
                  format));
}

void Opener::open_nvfp4(std::string_view codes, std::string_view scale, std::string_view input,
                        bool is_reciprocal) {
  for (const std::string& name : names_) {
    const auto base = base_of(name, codes);
    const SafeTensor* scales = base ? weights_.find(*base + ".weight_scale") : nullptr;
    if (scales == nullptr || weights_.find(name)->dtype != "U8") continue;
    const RepackedTensor repacked =
        repacked_nvfp4(weights_, require(name), require(*base + ".weight_scale"));
    const auto factor = [&](std::string_view suffix) {
      const std::string name_of_factor = *base + std::string(suffix);
      return is_reciprocal ? reciprocal(name_of_factor) : single(name_of_factor);
    };
    const Nvfp4Scales factors{factor(scale), factor(input)};
    const uint64_t row_bytes = quant::row_bytes(quant::Type::kNVFP4, repacked.shape[1]);
    SafeTensor tensor{.name = *base + ".weight", .dtype = kNvfp4, .shape = repacked.shape};
    tensor.n_bytes = row_bytes * repacked.shape[0];
    const SafeTensor* placed =
        weights_.put(*base + ".weight", std::move(tensor),
                     [repacked, row_bytes](uint64_t offset, std::span<std::byte> bytes) {
                       std::vector<std::byte> row(row_bytes);
                       while (!bytes.empty()) {
                         repacked.read_row(offset / row_bytes, row);
                         const auto from = std::span(row).subspan(offset % row_bytes);
                         const size_t n = std::min(from.size(), bytes.size());
                         std::copy_n(from.begin(), n, bytes.begin());
                         bytes = bytes.subspan(n);
                         offset += n;
                       }
                     });
    result_.nvfp4.emplace(placed, factors);
  }
}

// ModelOpt's files may mix layers in NVFP4 and in FP8.
void Opener::open_modelopt() {
  take_unused({".k_scale", ".v_scale"});
  open_nvfp4(".weight", ".weight_scale_2", ".input_scale", false);
  for (const std::string& name : names_) {
    const auto base = base_of(name, ".weight_scale");
    if (!base) continue;
    const SafeTensor& scales = require(name);
    const SafeTensor* weight = weights_.find(*base + ".weight");
    if (weight == nullptr || weight->dtype == kNvfp4) continue;
    put(*base + ".weight", decoded_scaled(weights_, require(*base + ".weight"), scales, {}));
  }
  take_unused({".input_scale"});
}

}  // namespace

bool QuantisedCheckpoint::keeps(const PlannedTensor& tensor) const {
  if (tensor.parts.empty()) return tensor.source != nullptr && nvfp4.contains(tensor.source);
  const auto is_ours = [this](const TensorPart& part) { return nvfp4.contains(part.source); };
  const auto n = std::ranges::count_if(tensor.parts, is_ours);
  if (n == 0) return false;
  const bool is_plain = std::ranges::all_of(tensor.parts, [](const TensorPart& part) {
    return part.turned_rows == 0 && !part.column_of && part.steps.empty();
  });
  const bool has_one_scale_a_part = tensor.parts.size() == 1 || tensor.shape.size() == 3;
  if (is_plain && has_one_scale_a_part && n == std::ssize(tensor.parts)) return true;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("tensor '{}' consists of NVFP4 weights that GGUF stores in another form; "
                          "convert the original model",
                          tensor.name));
}

void QuantisedCheckpoint::add_scales(std::vector<PlannedTensor>& plan) const {
  if (nvfp4.empty()) return;
  std::vector<PlannedTensor> all;
  const auto add = [&all](const std::string& name, std::vector<float> values) {
    constexpr float kNothing = 1e-6F;  // factors this close to 1 have no effect and are not written
    if (std::ranges::all_of(values, [](float x) { return std::abs(x - 1) < kNothing; })) return;
    PlannedTensor scale;
    scale.name = name;
    scale.n_rows = 1;
    scale.row_len = values.size();
    scale.values = std::move(values);
    all.push_back(std::move(scale));
  };
  for (PlannedTensor& tensor : plan) {
    std::vector<float> scales, inputs;
    if (keeps(tensor)) {
      std::vector<const SafeTensor*> sources{tensor.source};
      if (!tensor.parts.empty()) sources.clear();
      for (const TensorPart& part : tensor.parts) sources.push_back(part.source);
      for (const SafeTensor* source : sources) {
        scales.push_back(nvfp4.at(source).weight);
        inputs.push_back(nvfp4.at(source).input);
      }
    }
    const auto base = base_of(tensor.name, ".weight");
    all.push_back(std::move(tensor));
    if (scales.empty() || !base) continue;
    add(*base + ".scale", std::move(scales));
    add(*base + ".input_scale", std::move(inputs));
  }
  plan = std::move(all);
}

QuantisedCheckpoint open_quantised(const Sources& sources, Weights& weights) {
  const auto description = description_of(sources);
  if (!description || description->method == "mxfp4") return {};
  Opener opener(weights);
  if (description->method == "fp8") {
    opener.open_fp8(description->fields());
  } else if (description->method == "gptq") {
    opener.open_gptq(description->fields());
  } else if (description->method == "compressed-tensors") {
    opener.open_compressed(description->fields());
  } else if (description->method == "modelopt") {
    opener.open_modelopt();
  } else {
    not_known(
        fmt::format("weights that were quantised by '{}' cannot be converted (known: fp8, "
                    "gptq, compressed-tensors, modelopt); convert the original model",
                    description->method));
  }
  return opener.finish();
}

}  // namespace billow::convert
