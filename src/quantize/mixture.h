// Which type each tensor of a model gets in a quantised file: the mixtures that llama-quantize
// makes, from tables. Pure: facts and options in, decisions or a refusal out, before any work
// starts. Any thread.
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

// A type that tensors can be encoded in, by its name in any case; nullopt for another.
std::optional<quant::Type> find_target(std::string_view name) noexcept;

// What the choice depends on besides the tensors.
struct ModelFacts {
  std::string architecture;
  uint64_t n_blocks = 0;
  uint64_t n_heads = 0;  // of block 0, as is the next
  uint64_t n_kv_heads = 0;
  uint64_t n_experts = 0;
};

ModelFacts facts_of(const gguf::File& file);

struct Tensor {
  std::string_view name;
  std::array<uint64_t, 4> shape{1, 1, 1, 1};  // shape[0] is the row length
  uint32_t type = 0;                          // number of the file
};

std::vector<Tensor> tensors_of(const gguf::File& file);

struct TypeOfPattern {
  std::string text;    // as the user wrote it
  std::regex pattern;  // searched in the name
  quant::Type type;
};

struct MixtureOptions {
  const FileType* file_type = nullptr;  // REQUIRES: not null
  bool pure = false;                    // the base type for everything
  bool leave_output = false;            // output.weight stays as it is
  bool allow_requantize = false;
  std::optional<quant::Type> output_type = {};
  std::optional<quant::Type> embedding_type = {};
  std::vector<TypeOfPattern> patterns = {};  // the first that is found in a name decides
  // Whether the importance matrix has an entry of this name; null: there is no importance matrix.
  std::function<bool(std::string_view name)> has_importance = {};
};

// Why a tensor has its type.
enum class Reason : uint8_t {
  kKept,            // not a kind of tensor that is quantised, or asked to be left alone
  kChosenForClass,  // --output-tensor-type, --token-embedding-type
  kPattern,
  kBase,     // the file type's own type
  kMixture,  // raised or lowered by the file type's mixture
  kWidth,    // another than that, because the row length is no multiple of its groups
};
std::string_view text_of(Reason reason) noexcept;

struct Decision {
  size_t tensor = 0;  // its index among the tensors given
  uint32_t type = 0;  // number for the file; the tensor's own where it is copied
  Reason reason = Reason::kKept;
};

// One decision for each tensor, in the order in which they lie in the new file: by block, then by
// name. Throws Error (kUnsupported) in one line that names the tensor when the file cannot be made:
// an importance matrix is needed, a quantised source would change, a source cannot be read.
std::vector<Decision> plan_mixture(const ModelFacts& facts, std::span<const Tensor> tensors,
                                   const MixtureOptions& options);

}  // namespace billow::quantize
