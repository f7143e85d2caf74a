// Plans the tensors of an adapter's GGUF file. An adapter pair changes a matrix W to W + B A. The
// tensor rules of the family describe the conversion of W. Row operations on W apply to B, and
// column operations on W apply to A. Families therefore need no rules for adapters. Not
// thread-safe.
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
  double alpha = 0;  // adapter.lora.alpha; readers divide it by the rank of each pair
};

// Plans the file. `weights` are the tensors of the adapter. `config` is the configuration of the
// base model. Throws Error that names the tensor if the tensor is not half of a pair. Also throws
// Error if the GGUF file of the base model does not contain the matrix. The GGUF matrix must
// consist of rows and columns of W; otherwise the function throws Error, too.
AdapterPlan plan_adapter(const AdapterSettings& settings, const LanguageFamily& family,
                         const ModelConfig& config, Weights& weights);

}  // namespace billow::convert
