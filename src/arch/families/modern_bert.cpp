// modern-bert: ModernBERT and models derived from it (gte-modernbert, granite-embedding R2, their
// rerankers). Norms without biases before each sub-layer, rotation, a gated feed-forward part. Two
// of three layers see a window and rotate with another base. The first layer reads the normed
// embedding directly. A classifier reads the mean, unless the file says otherwise.
#include <string>

#include "arch/encoders/style.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

nn::Activation activation_of(const Metadata& meta) {
  const std::string name(meta.file().get_string(meta.key("hidden_activation")).value_or("gelu"));
  if (name == "gelu") return nn::Activation::kGeluErf;
  if (name == "silu" || name == "swish") return nn::Activation::kSilu;
  meta.refuse("hidden_activation", "is '" + name + "'; known are gelu and silu");
}

// Returns which layers see a window. Without flags in the file, these are all but the first of each
// period.
std::vector<bool> local_layers(const Metadata& meta, size_t n) {
  const char* const name = "attention.sliding_window_pattern";
  std::vector<bool> local = meta.flags(name, n);
  if (!local.empty()) return local;
  const size_t period = meta.size_or(name, 3, kMaxLayers);
  for (size_t i = 0; i < n; ++i) local.push_back(i % period != 0);
  return local;
}

EncoderStyle style(const Metadata& meta) {
  EncoderStyle out = read_encoder(meta, {.gated = true, .activation = activation_of(meta)});
  out.norms_of_sums = false;
  out.norms = {.attn = "attn_norm", .post_attn = "", .ffn = "ffn_norm", .post_ffn = ""};
  out.output_norm = "output_norm";
  out.layers.front().attn_norm = meta.file().find_tensor("blk.0.attn_norm.weight") != nullptr;
  set_rope(out, meta);
  if (meta.count("attention.sliding_window", kMaxContext) != 0)
    set_local_layers(out, meta, local_layers(meta, out.layers.size()));
  constexpr size_t kPoolsFirst = 2;
  out.classifier = {.activation = nn::Activation::kGeluErf,
                    .of_mean = meta.count("classifier.pooling_type", 4) != kPoolsFirst};
  return out;
}

}  // namespace

const ArchDef kModernBert = {"modern-bert", nullptr, style};

}  // namespace billow::arch
