// Reads the metadata of families with recurrent layers. Pure. Errors name the key that is missing
// or invalid.
#pragma once

#include <vector>

#include "arch/decoder/style.h"
#include "arch/metadata.h"

namespace billow::arch {

ShortConvStyle read_short_conv(const Metadata& meta);
MambaStyle read_mamba(const Metadata& meta, MambaNorms norms);
Mamba2Style read_mamba2(const Metadata& meta);
DeltaNetStyle read_delta_net(const Metadata& meta);
KimiDeltaStyle read_kimi_delta(const Metadata& meta);
// Gates and head norms exist if the first layer has their tensors.
TimeMixStyle read_time_mix(const Metadata& meta, size_t n_embd);

// Returns which layers have a gated delta net instead of attention, from the key
// attention.recurrent_layers. If the key is missing, each full_attention_interval-th layer has
// attention.
std::vector<bool> read_recurrent_layers(const Metadata& meta, size_t n_layers);

// Gives the mixer to all layers without attention.
void set_recurrent(DecoderStyle& style, const MixerStyle& mixer);

}  // namespace billow::arch
