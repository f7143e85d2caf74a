// Decides which type each tensor of a model gets in a quantised file. Tables describe the mixtures
// of llama-quantize. Pure: takes facts and options, and returns decisions or throws a refusal
// before any work starts. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/file.h"
#include "quant/type.h"
#include "quantize/file_type.h"

namespace billow::quantize {

// Finds a type by its name in any case. Returns nullopt if no encodable type has this name.
std::optional<quant::Type> find_target(std::string_view name) noexcept;

// The facts about a model that the choice depends on.
struct ModelFacts {
  std::string architecture;
  uint64_t n_blocks = 0;
  uint64_t n_heads = 0;  // of block 0, like n_kv_heads
  uint64_t n_kv_heads = 0;
  uint64_t n_experts = 0;
};

ModelFacts facts_of(const gguf::File& file);

struct Tensor {
  std::string_view name;
  std::array<uint64_t, 4> shape{1, 1, 1, 1};  // shape[0] is the row length
  uint32_t type = 0;                          // the type's number in the file
};

std::vector<Tensor> tensors_of(const gguf::File& file);

struct TypeOfPattern {
  std::string text;    // as the user wrote it
  std::regex pattern;  // searched for anywhere in the name
  quant::Type type;
};

struct MixtureOptions {
  const FileType* file_type = nullptr;  // REQUIRES: not null
  bool pure = false;                    // every matrix gets the base type
  bool leave_output = false;            // output.weight keeps its type
  bool allow_requantize = false;
  std::optional<quant::Type> output_type = {};
  std::optional<quant::Type> embedding_type = {};
  std::vector<TypeOfPattern> patterns = {};  // the first pattern that matches a name decides
  // Returns whether the importance matrix has an entry of this name. Null: there is no importance
  // matrix.
  std::function<bool(std::string_view name)> has_importance = {};
};

// Why a tensor has its type.
enum class Reason : uint8_t {
  kKept,  // tensors of this kind are never quantised, or the user wants this one unchanged
  kChosenForClass,  // --output-tensor-type, --token-embedding-type
  kPattern,
  kBase,     // the base type of the file type
  kMixture,  // raised or lowered by the file type's mixture
  kWidth,    // a fallback, because the row length is not a multiple of the type's group length
};
std::string_view text_of(Reason reason) noexcept;

struct Decision {
  size_t tensor = 0;  // index into the given tensors
  uint32_t type = 0;  // the type's number in the file; a copied tensor keeps its number
  Reason reason = Reason::kKept;
};

// Returns one decision for each tensor, in the order of the new file: by block, then by name.
// Throws Error (kUnsupported) with one line that names the tensor if the file cannot be made.
// Reasons: an importance matrix is needed, a quantised source would change, a source type cannot be
// read.
std::vector<Decision> plan_mixture(const ModelFacts& facts, std::span<const Tensor> tensors,
                                   const MixtureOptions& options);

}  // namespace billow::quantize
