// Which tensors the GGUF file of an adapter has. The rules of the family say what becomes of the
// matrix W that a pair changes, W + B A. What they do to the rows of W is done to those of B, and
// what they do to its columns to those of A, so no family has rules for adapters. One thread.
#pragma once

#include <vector>

#include "convert/adapter_settings.h"
#include "convert/language_family.h"
#include "convert/model_config.h"
#include "convert/planned_tensor.h"
#include "convert/weights.h"

namespace billow::convert {

struct AdapterPlan {
  std::vector<PlannedTensor> tensors;  // NAME.lora_a and NAME.lora_b
  double alpha = 0;                    // adapter.lora.alpha, to be divided by each pair's rank
};

// `weights` are the adapter's; `config` is that of the model that it was made for. Throws Error
// that names the tensor for one that is no half of a pair, for a pair of a matrix that the GGUF
// file of the model has not or has in another form than rows and columns of W.
AdapterPlan plan_adapter(const AdapterSettings& settings, const LanguageFamily& family,
                         const ModelConfig& config, Weights& weights);

}  // namespace billow::convert
