// Which tensors the GGUF file of a language model has: each tensor of the checkpoint is looked up
// in the rules of the family. One thread.
#pragma once

#include <string>
#include <vector>

#include "convert/language_family.h"
#include "convert/planned_tensor.h"

namespace billow::convert {

struct LanguagePlan {
  std::vector<PlannedTensor> tensors;  // by layers
  uint32_t n_predicting = 0;           // layers behind the last that are appended
  size_t n_of_other_parts = 0;         // tensors for pictures and sounds that are left out
  size_t n_left_predicting = 0;        // tensors of layers that only predict further tokens
};

// Takes from `weights` what it uses. Throws Error (kInvalidInput) for a tensor of no known use, for
// one of a shape that does not fit, and for parts that are missing.
LanguagePlan plan_language_tensors(const LanguageFamily& family, const ModelConfig& config,
                                   Weights& weights);

// The same for some matrices of a model: those of `names`, which `weights` must have. A name of no
// known use, or of a part that GGUF files leave out, gives no tensor.
std::vector<PlannedTensor> plan_language_matrices(const LanguageFamily& family,
                                                  const ModelConfig& config, Weights& weights,
                                                  const std::vector<std::string>& names);

// Whether a tensor of this name stays in F32 in every file: by its dimensions and by its name.
bool is_kept_in_f32(std::string_view name, size_t n_dims);

}  // namespace billow::convert
