#include "arch/registry.h"

#include <algorithm>
#include <string>
#include <utility>

#include "arch/decoder/decoder.h"
#include "arch/decoder/read.h"
#include "arch/encoder.h"
#include "arch/encoders/projection.h"
#include "arch/encoders/text_encoder.h"
#include "base/error.h"

namespace billow::arch {

std::span<const ArchDef> architectures() noexcept {
  static const ArchDef kRows[] = {
      kAfmoe,        kApertus,      kArcee,     kBailingMoe2,    kARwkv7,        kBert,
      kBloom,        kChatGlm,      kCohere2,   kCommandR,       kDbrx,          kDeci,
      kDeepseek2,    kDots1,        kErnie45,   kErnie45Moe,     kEuroBert,      kExaone,
      kExaone4,      kExaoneMoe,    kFalcon,    kFalconH1,       kGemma,         kGemma2,
      kGemma3,       kGemma3n,      kGemma4,    kGemmaEmbedding, kGlm4,          kGlm4Moe,
      kGpt2,         kGptNeoX,      kGptOss,    kGranite,        kGraniteHybrid, kGraniteMoe,
      kHunyuanDense, kHunyuanMoe,   kInternLm2, kJamba,          kJinaBertV2,    kJinaBertV3,
      kKimiLinear,   kLfm2,         kLfm2Moe,   kLlama,          kLlama4,        kLlamaEmbed,
      kMamba,        kMamba2,       kMiniCpm,   kMinimaxM2,      kMistral3,      kMistral4,
      kModernBert,   kMpt,          kNemotron,  kNemotronH,      kNemotronHMoe,  kNeoBert,
      kNomicBert,    kNomicBertMoe, kOlmo,      kOlmo2,          kOlmoe,         kPhi2,
      kPhi3,         kPhiMoe,       kQwen2,     kQwen2Moe,       kQwen2Vl,       kQwen3,
      kQwen35,       kQwen35Moe,    kQwen3Moe,  kQwen3Next,      kQwen3Vl,       kQwen3VlMoe,
      kRwkv7,        kSeedOss,      kSmollm3,   kStableLm,       kStarcoder,     kStarcoder2};
  return kRows;
}

size_t max_packed_bytes(const gguf::File& file) {
  size_t sum = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const quant::TypeRow* type = quant::find_type(tensor.type);
    // A matrix may be cut into three matrices, each with a partial strip.
    constexpr size_t kCuts = 3;
    if (type == nullptr || tensor.n_dims < 2) continue;
    const size_t n_matrices = tensor.shape[2] * tensor.shape[3];
    sum += n_matrices * nn::PackedWeights::bytes_of(type->type, tensor.shape[0],
                                                    tensor.shape[1] + kCuts * quant::kStripRows);
  }
  return sum;
}

namespace {

const ArchDef& find(const gguf::File& file) {
  std::string_view name = file.require_string("general.architecture");
  if (name == "qwen25vl") name = "qwen2vl";  // Ollama's name of the same architecture
  std::string known;
  for (const ArchDef& def : architectures()) {
    if (def.name == name) return def;
    known += (known.empty() ? "" : ", ") + std::string(def.name);
  }
  throw Error(ErrorCode::kUnsupported, file.path() + ": architecture '" + std::string(name) +
                                           "' is not supported; supported are " + known);
}

}  // namespace

std::unique_ptr<Model> load_model(const gguf::File& file, const LoadOptions& options) {
  const ArchDef& def = find(file);
  if (def.style != nullptr) {
    DecoderStyle style = def.style(Metadata(file));
    check_layers(style, file.path());
    auto decoder = std::make_unique<Decoder>(std::move(style), file, options);
    if (def.has_head && options.with_head) decoder->load_head(file, options);
    return decoder;
  }
  throw Error(ErrorCode::kUnsupported, file.path() + ": a model of architecture '" +
                                           std::string(def.name) +
                                           "' makes vectors from texts and cannot generate text");
}

namespace {

bool is_bidirectional(const gguf::File& file) {
  const gguf::Value* causal = file.find(Metadata(file).key("attention.causal"));
  return causal != nullptr && gguf::as_bool(*causal) == false;
}

}  // namespace

bool is_encoder(const gguf::File& file) {
  const auto name = file.get_string("general.architecture");
  return std::ranges::any_of(architectures(), [&](const ArchDef& def) {
    return def.name == name && def.encoder != nullptr &&
           (def.style == nullptr || Projection::is_in(file) || is_bidirectional(file));
  });
}

std::unique_ptr<Encoder> load_encoder(const gguf::File& file, const LoadOptions& options) {
  const ArchDef& def = find(file);
  if (is_encoder(file)) {
    return std::make_unique<TextEncoder>(def.encoder(Metadata(file)), file, options);
  }
  throw Error(ErrorCode::kUnsupported,
              file.path() + ": architecture '" + std::string(def.name) + "' is not an encoder");
}

}  // namespace billow::arch
