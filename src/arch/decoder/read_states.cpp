#include "arch/decoder/read_states.h"

#include <string>

#include "arch/decoder/read.h"
#include "kernels/state_kernels.h"

namespace billow::arch {
namespace {

using kernels::kStatePanel;

size_t read_taps(const Metadata& meta, const char* name) {
  const size_t taps = meta.size(name, kMaxWidth);
  if (taps < 2 || taps > kernels::kMaxConvTaps) {
    meta.refuse(name, "is " + std::to_string(taps) + "; 2 to " +
                          std::to_string(kernels::kMaxConvTaps) + " are supported");
  }
  return taps;
}

// Checks the number of keys of a state, or of channels of a head.
void check_multiple(const Metadata& meta, const char* name, const char* what, size_t n, size_t of) {
  if (n != 0 && n % of == 0) return;
  meta.refuse(name, "makes " + std::string(what) + " of " + std::to_string(n) + "; multiples of " +
                        std::to_string(of) + " are supported");
}

// Real models have at most 2^22 values in the state of a layer.
void check_state(const Metadata& meta, const char* name, size_t n_states, size_t n_channels) {
  constexpr size_t kMax = size_t{1} << 28;
  if (n_states > kMax / n_channels)
    meta.refuse(name, "makes a state of more than 2^28 values a layer");
}

}  // namespace

ShortConvStyle read_short_conv(const Metadata& meta) {
  return {.taps = read_taps(meta, "shortconv.l_cache")};
}

MambaStyle read_mamba(const Metadata& meta, MambaNorms norms) {
  const MambaStyle style = {.n_channels = meta.size("ssm.inner_size", kMaxWidth),
                            .n_states = meta.size("ssm.state_size", kMaxWidth),
                            .n_steps = meta.size("ssm.time_step_rank", kMaxWidth),
                            .taps = read_taps(meta, "ssm.conv_kernel"),
                            .norms = norms};
  check_multiple(meta, "ssm.inner_size", "channels", style.n_channels, kStatePanel);
  if (style.n_states > kernels::kMaxScanStates) {
    meta.refuse("ssm.state_size", "is " + std::to_string(style.n_states) + "; at most " +
                                      std::to_string(kernels::kMaxScanStates) + " are supported");
  }
  check_state(meta, "ssm.state_size", style.n_states, style.n_channels);
  return style;
}

Mamba2Style read_mamba2(const Metadata& meta) {
  const Mamba2Style style = {.n_channels = meta.size("ssm.inner_size", kMaxWidth),
                             .n_states = meta.size("ssm.state_size", kMaxWidth),
                             .n_heads = meta.size("ssm.time_step_rank", kMaxWidth),
                             .n_groups = meta.size_or("ssm.group_count", 1, kMaxWidth),
                             .taps = read_taps(meta, "ssm.conv_kernel")};
  if (style.n_channels % style.n_heads != 0)
    meta.refuse("ssm.time_step_rank", "does not divide ssm.inner_size");
  if (style.n_heads % style.n_groups != 0)
    meta.refuse("ssm.group_count", "does not divide ssm.time_step_rank");
  check_multiple(meta, "ssm.inner_size", "heads", style.n_channels / style.n_heads, kStatePanel);
  check_multiple(meta, "ssm.state_size", "states", style.n_states, 4);
  if (style.n_groups * style.n_states > kMaxWidth)
    meta.refuse("ssm.group_count", "makes more than 2^24 values together");
  check_state(meta, "ssm.state_size", style.n_states, style.n_channels);
  return style;
}

DeltaNetStyle read_delta_net(const Metadata& meta) {
  DeltaNetStyle style = {.n_key_heads = meta.size("ssm.group_count", kMaxWidth),
                         .n_heads = meta.size("ssm.time_step_rank", kMaxWidth),
                         .key_len = meta.size("ssm.state_size", kMaxWidth),
                         .taps = read_taps(meta, "ssm.conv_kernel")};
  const size_t n_values = meta.size("ssm.inner_size", kMaxWidth);
  if (n_values % style.n_heads != 0)
    meta.refuse("ssm.time_step_rank", "does not divide ssm.inner_size");
  if (style.n_heads % style.n_key_heads != 0)
    meta.refuse("ssm.group_count", "does not divide ssm.time_step_rank");
  style.value_len = n_values / style.n_heads;
  check_multiple(meta, "ssm.inner_size", "heads", style.value_len, kStatePanel);
  check_multiple(meta, "ssm.state_size", "keys", style.key_len, 4);
  if (style.n_key_heads * style.key_len > kMaxWidth)
    meta.refuse("ssm.group_count", "makes keys of more than 2^24 values together");
  check_state(meta, "ssm.state_size", style.key_len, n_values);
  return style;
}

KimiDeltaStyle read_kimi_delta(const Metadata& meta) {
  const KimiDeltaStyle style = {.n_heads = meta.size("attention.head_count", kMaxWidth),
                                .head_len = meta.size("kda.head_dim", kMaxWidth),
                                .taps = read_taps(meta, "ssm.conv_kernel")};
  check_multiple(meta, "kda.head_dim", "heads", style.head_len, kStatePanel);
  if (style.n_heads * style.head_len > kMaxWidth)
    meta.refuse("kda.head_dim", "makes heads of more than 2^24 values together");
  check_state(meta, "kda.head_dim", style.head_len, style.n_heads * style.head_len);
  return style;
}

TimeMixStyle read_time_mix(const Metadata& meta, size_t n_embd) {
  TimeMixStyle style = {
      .head_len = meta.size("wkv.head_size", kMaxWidth),
      .decay_rank = meta.size("attention.decay_lora_rank", kMaxWidth),
      .rate_rank = meta.size("attention.iclr_lora_rank", kMaxWidth),
      .value_rank = meta.size("attention.value_residual_mix_lora_rank", kMaxWidth)};
  check_multiple(meta, "wkv.head_size", "heads", style.head_len, kStatePanel);
  if (n_embd % style.head_len != 0)
    meta.refuse("wkv.head_size", "does not divide embedding_length");
  check_state(meta, "wkv.head_size", style.head_len, n_embd);
  if (has_tensor(meta, 0, "time_mix_g1.weight"))
    style.gate_rank = meta.size("attention.gate_lora_rank", kMaxWidth);
  style.head_norm = has_tensor(meta, 0, "time_mix_ln.weight");
  return style;
}

std::vector<bool> read_recurrent_layers(const Metadata& meta, size_t n_layers) {
  std::vector<bool> layers = meta.flags("attention.recurrent_layers", n_layers);
  if (!layers.empty()) return layers;
  constexpr size_t kUsual = 4;
  const size_t interval = meta.size_or("full_attention_interval", kUsual, kMaxLayers);
  for (size_t i = 0; i < n_layers; ++i) layers.push_back((i + 1) % interval != 0);
  return layers;
}

void set_recurrent(DecoderStyle& style, const MixerStyle& mixer) {
  for (LayerStyle& layer : style.layers)
    if (std::holds_alternative<std::monostate>(layer.mixer)) layer.mixer = mixer;
}

}  // namespace billow::arch
