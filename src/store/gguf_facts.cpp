#include "store/gguf_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "base/regular_file.h"

namespace billow::store {
namespace {

struct FileType {
  uint64_t number;
  std::string_view name;
};
// The numbers are those of llama.cpp.
constexpr std::array kFileTypes{
    FileType{0, "F32"},      FileType{1, "F16"},     FileType{2, "Q4_0"},    FileType{3, "Q4_1"},
    FileType{7, "Q8_0"},     FileType{8, "Q5_0"},    FileType{9, "Q5_1"},    FileType{10, "Q2_K"},
    FileType{11, "Q3_K_S"},  FileType{12, "Q3_K_M"}, FileType{13, "Q3_K_L"}, FileType{14, "Q4_K_S"},
    FileType{15, "Q4_K_M"},  FileType{16, "Q5_K_S"}, FileType{17, "Q5_K_M"}, FileType{18, "Q6_K"},
    FileType{19, "IQ2_XXS"}, FileType{20, "IQ2_XS"}, FileType{21, "Q2_K_S"}, FileType{22, "IQ3_XS"},
    FileType{23, "IQ3_XXS"}, FileType{24, "IQ1_S"},  FileType{25, "IQ4_NL"}, FileType{26, "IQ3_S"},
    FileType{27, "IQ3_M"},   FileType{28, "IQ2_S"},  FileType{29, "IQ2_M"},  FileType{30, "IQ4_XS"},
    FileType{31, "IQ1_M"},   FileType{32, "BF16"},   FileType{36, "TQ1_0"},  FileType{37, "TQ2_0"},
    FileType{38, "MXFP4"},
};

std::string text_of(const gguf::File& file, const std::string& key) {
  const gguf::Value* value = file.find(key);
  return std::string(value ? gguf::as_string(*value).value_or("") : "");
}

uint64_t count_of(const gguf::File& file, const std::string& key) {
  const gguf::Value* value = file.find(key);
  return value ? gguf::as_uint(*value).value_or(0) : 0;
}

bool flag_of(const gguf::File& file, const std::string& key, bool otherwise) {
  const gguf::Value* value = file.find(key);
  return value ? gguf::as_bool(*value).value_or(otherwise) : otherwise;
}

}  // namespace

std::string_view file_type_name(uint64_t number) noexcept {
  const auto at = std::ranges::find(kFileTypes, number, &FileType::number);
  return at == kFileTypes.end() ? "unknown" : at->name;
}

GgufFacts facts_of(const gguf::File& file) {
  GgufFacts facts;
  facts.architecture = text_of(file, "general.architecture");
  facts.kind = text_of(file, "general.type");
  if (facts.kind.empty()) facts.kind = "model";
  const gguf::Value* file_type = file.find("general.file_type");
  const auto number = file_type ? gguf::as_uint(*file_type) : std::nullopt;
  facts.quantization = number ? file_type_name(*number) : "unknown";
  facts.chat_template = text_of(file, "tokenizer.chat_template");
  for (const gguf::TensorInfo& tensor : file.tensors()) facts.n_parameters += tensor.n_elements();
  const std::string prefix = facts.architecture + ".";
  facts.context_length = count_of(file, prefix + "context_length");
  facts.embedding_length = count_of(file, prefix + "embedding_length");
  // Reranker files that llama.cpp's converter creates from encoders do not have a pooling type.
  facts.has_pooling = file.find(prefix + "pooling_type") != nullptr ||
                      !flag_of(file, prefix + "attention.causal", true);
  if (facts.is_projector()) {
    // Old projectors do not say what they encode. They encode images.
    facts.has_audio = flag_of(file, "clip.has_audio_encoder", false);
    facts.has_vision = flag_of(file, "clip.has_vision_encoder", !facts.has_audio);
  } else {
    facts.has_audio = file.find(prefix + "audio.block_count") != nullptr;
    facts.has_vision = file.find(prefix + "vision.block_count") != nullptr;
  }
  return facts;
}

std::string human_count(uint64_t n) {
  const auto shown = [&](double unit, int n_decimals, char letter) {
    const double number = static_cast<double>(n) / unit;
    return fmt::format("{:.{}f}{}", number, number == std::floor(number) ? 0 : n_decimals, letter);
  };
  if (n >= 1'000'000'000) return shown(1e9, 1, 'B');
  if (n >= 1'000'000) return shown(1e6, 2, 'M');
  if (n >= 1'000) return shown(1e3, 0, 'K');
  return std::to_string(n);
}

bool begins_as_gguf(const std::string& path) {
  const RegularFile file(path);
  char magic[4] = {};
  return file.read_at(0, std::as_writable_bytes(std::span(magic))) == sizeof magic &&
         std::memcmp(magic, "GGUF", sizeof magic) == 0;
}

}  // namespace billow::store
