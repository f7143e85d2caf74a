#include "cli/needs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "arch/encoder.h"
#include "arch/registry.h"
#include "base/error.h"
#include "gguf/tensor_type.h"
#include "quant/type.h"
#include "tokenizer/tokenizer.h"

namespace billow::cli {
namespace {

constexpr const char* kArchitectureKey = "general.architecture";

// Returns the text of a key; empty if the key is absent or its value is not a text.
std::string text_of(const gguf::File& file, std::string_view key) {
  const gguf::Value* value = file.find(key);
  return value == nullptr ? "" : std::string(gguf::as_string(*value).value_or(""));
}

// Removes the path from the beginning of an error message.
std::string without_path(const std::string& message, const std::string& path) {
  const std::string prefix = path + ": ";
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

// Returns why `load` fails; empty: it succeeds.
template <class Load>
std::string refusal_of(const gguf::File& file, const Load& load) {
  try {
    load();
  } catch (const Error& error) {
    return without_path(error.what(), file.path());
  }
  return {};
}

// Records which tensors a loader looks up.
struct Watch {
  explicit Watch(const gguf::File& file_) : file(file_), found(file.tensors().size()) {
    file.watch_lookups(&found);
  }
  ~Watch() { file.watch_lookups(nullptr); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  const gguf::File& file;
  std::vector<bool> found;
};

void try_loading(const gguf::File& file, FileNeeds& needs) {
  const Watch watch(file);
  needs.reason = refusal_of(file, [&] {
    if (arch::is_encoder(file))
      (void)arch::load_encoder(file, {});
    else
      (void)arch::load_model(file, {});
  });
  if (!needs.reason.empty()) return;
  for (size_t i = 0; i < watch.found.size(); ++i)
    if (!watch.found[i]) needs.unread.push_back(file.tensors()[i].name);
}

std::vector<TensorGroup> unsupported_formats(const gguf::File& file) {
  std::map<uint32_t, TensorGroup> groups;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (quant::find_type(tensor.type) != nullptr) continue;
    TensorGroup& group = groups[tensor.type];
    group.type = gguf::tensor_type_name(tensor.type);
    group.names.push_back(tensor.name);
  }
  std::vector<TensorGroup> all;
  for (auto& [type, group] : groups) all.push_back(std::move(group));
  return all;
}

// Splits "blk.12.ffn_up.weight" into 12 and "ffn_up.weight".
std::optional<std::pair<uint64_t, std::string_view>> block_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  uint64_t block = 0;
  const char* const end = name.data() + name.size();
  const auto [dot, error] = std::from_chars(name.data() + kPrefix.size(), end, block);
  if (error != std::errc() || dot == end || *dot != '.') return std::nullopt;
  return std::pair(block, std::string_view(dot + 1, end));
}

std::vector<std::string> missing_tensors(const gguf::File& file, const std::string& architecture) {
  constexpr uint64_t kMaxBlocks = 4096;  // far more than any model has
  constexpr std::array kOfAllModels = {"token_embd.weight", "output_norm.weight"};
  std::vector<std::string> missing;
  for (const char* name : kOfAllModels)
    if (!arch::is_encoder(file) && file.find_tensor(name) == nullptr) missing.emplace_back(name);
  const gguf::Value* value = file.find(architecture + ".block_count");
  const uint64_t n_blocks = value == nullptr ? 0 : gguf::as_uint(*value).value_or(0);
  // The key is the name after the block number.
  std::map<std::string_view, std::set<uint64_t>> blocks_with;
  for (const gguf::TensorInfo& tensor : file.tensors())
    if (const auto place = block_of(tensor.name)) blocks_with[place->second].insert(place->first);
  for (uint64_t block = 0; block < std::min(n_blocks, kMaxBlocks); ++block) {
    for (const auto& [name, blocks] : blocks_with)
      if (!blocks.contains(block))
        missing.push_back("blk." + std::to_string(block) + "." + std::string(name));
  }
  return missing;
}

// Files that are not language models, and how to use them. The values are the ones that their
// converters write.
struct OtherKind {
  std::string_view key;
  std::string_view value;
  std::string_view way;
};
constexpr std::string_view kPictures =
    "it generates pictures or films: stable-diffusion.cpp and ComfyUI-GGUF run such models";
constexpr std::string_view kProjector =
    "it is the part of a model that sees or hears; llama.cpp loads it together with the model: "
    "llama-server --model MODEL --mmproj FILE";
constexpr std::array kOtherKinds = std::to_array<OtherKind>({
    {"general.type", "mmproj", kProjector},
    {kArchitectureKey, "clip", kProjector},
    {"general.type", "adapter",
     "it is an adapter (LoRA) for another model; llama.cpp loads it together with the model: "
     "llama-server --model MODEL --lora FILE"},
    {"general.type", "imatrix",
     "it is an importance matrix; llama.cpp quantises with it: "
     "llama-quantize --imatrix FILE MODEL NEW.gguf TYPE"},
    {kArchitectureKey, "aura", kPictures},
    {kArchitectureKey, "cosmos", kPictures},
    {kArchitectureKey, "flux", kPictures},
    {kArchitectureKey, "hidream", kPictures},
    {kArchitectureKey, "hyvid", kPictures},
    {kArchitectureKey, "ltxv", kPictures},
    {kArchitectureKey, "lumina2", kPictures},
    {kArchitectureKey, "qwen_image", kPictures},
    {kArchitectureKey, "sd1", kPictures},
    {kArchitectureKey, "sd3", kPictures},
    {kArchitectureKey, "sdxl", kPictures},
    {kArchitectureKey, "wan", kPictures},
});

std::vector<std::string> ways_of(const gguf::File& file, const FileNeeds& needs) {
  for (const OtherKind& kind : kOtherKinds)
    if (text_of(file, kind.key) == kind.value) return {std::string(kind.way)};
  if (file.tensors().empty()) return {"it has a vocabulary but no weights: fetch the model"};
  if (!needs.missing.empty())
    return {"tensors are missing, so no program can run it: fetch it again, or convert it again"};
  std::vector<std::string> ways;
  if (needs.knows_architecture && !needs.unsupported.empty()) {
    ways.emplace_back(
        "llama.cpp can convert the weights to a format that Billow supports, in a larger file: "
        "llama-quantize --allow-requantize FILE NEW.gguf Q8_0");
  }
  ways.emplace_back("llama.cpp may run it: llama-server --model FILE");
  return ways;
}

}  // namespace

FileNeeds needs_of(const gguf::File& file) {
  FileNeeds needs;
  needs.architecture = text_of(file, kArchitectureKey);
  needs.knows_architecture =
      std::ranges::any_of(arch::architectures(),
                          [&](const arch::ArchDef& def) { return def.name == needs.architecture; });
  needs.unsupported = unsupported_formats(file);
  try_loading(file, needs);
  needs.vocabulary = refusal_of(file, [&] { (void)tokenizer::Tokenizer::load(file); });
  needs.runs = needs.reason.empty() && needs.vocabulary.empty();
  if (needs.runs) return needs;
  if (needs.reason.empty()) needs.reason = needs.vocabulary;
  if (needs.knows_architecture && needs.reason.find(" is missing") != std::string::npos)
    needs.missing = missing_tensors(file, needs.architecture);
  needs.ways = ways_of(file, needs);
  return needs;
}

}  // namespace billow::cli
