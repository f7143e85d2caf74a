// The table of architectures, with one row for each, in registry.cpp. docs/adding-a-model.md
// explains how to add one.
#pragma once

#include <span>
#include <string_view>

#include "arch/decoder/style.h"
#include "arch/encoders/style.h"
#include "arch/metadata.h"

namespace billow::arch {

struct ArchDef {
  std::string_view name;  // general.architecture
  // Language models have `style`, encoders have `encoder`. If an architecture has both, a file is
  // an encoder if it says that attention is not causal, or if it has dense layers after pooling.
  DecoderStyle (*style)(const Metadata& meta);
  EncoderStyle (*encoder)(const Metadata& meta) = nullptr;
  // Files can have a predicting head (Model::head) whose hidden states come after the final norm.
  bool has_head = false;
};

std::span<const ArchDef> architectures() noexcept;

// Each is defined in families/, in a file of its name. Architectures with one style share a file.
extern const ArchDef kAfmoe;
extern const ArchDef kApertus;
extern const ArchDef kArcee;
extern const ArchDef kARwkv7;
extern const ArchDef kBailingMoe2;
extern const ArchDef kBert;
extern const ArchDef kBloom;
extern const ArchDef kChatGlm;
extern const ArchDef kCohere2;
extern const ArchDef kCommandR;
extern const ArchDef kDbrx;
extern const ArchDef kDeci;
extern const ArchDef kDeepseek2;
extern const ArchDef kDots1;
extern const ArchDef kErnie45;
extern const ArchDef kErnie45Moe;
extern const ArchDef kEuroBert;
extern const ArchDef kExaone;
extern const ArchDef kExaone4;
extern const ArchDef kExaoneMoe;
extern const ArchDef kFalcon;
extern const ArchDef kFalconH1;
extern const ArchDef kGemma;
extern const ArchDef kGemma2;
extern const ArchDef kGemma3;
extern const ArchDef kGemma3n;
extern const ArchDef kGemma4;
extern const ArchDef kGemmaEmbedding;
extern const ArchDef kGlm4;
extern const ArchDef kGlm4Moe;
extern const ArchDef kGpt2;
extern const ArchDef kGptNeoX;
extern const ArchDef kGptOss;
extern const ArchDef kGranite;
extern const ArchDef kGraniteHybrid;
extern const ArchDef kGraniteMoe;
extern const ArchDef kHunyuanDense;
extern const ArchDef kHunyuanMoe;
extern const ArchDef kInternLm2;
extern const ArchDef kJamba;
extern const ArchDef kJinaBertV2;
extern const ArchDef kJinaBertV3;
extern const ArchDef kKimiLinear;
extern const ArchDef kLfm2;
extern const ArchDef kLfm2Moe;
extern const ArchDef kLlama;
extern const ArchDef kLlama4;
extern const ArchDef kLlamaEmbed;
extern const ArchDef kMamba;
extern const ArchDef kMamba2;
extern const ArchDef kMiniCpm;
extern const ArchDef kMinimaxM2;
extern const ArchDef kMistral3;
extern const ArchDef kMistral4;
extern const ArchDef kModernBert;
extern const ArchDef kMpt;
extern const ArchDef kNemotron;
extern const ArchDef kNemotronH;
extern const ArchDef kNemotronHMoe;
extern const ArchDef kNeoBert;
extern const ArchDef kNomicBert;
extern const ArchDef kNomicBertMoe;
extern const ArchDef kOlmo;
extern const ArchDef kOlmo2;
extern const ArchDef kOlmoe;
extern const ArchDef kPhi2;
extern const ArchDef kPhi3;
extern const ArchDef kPhiMoe;
extern const ArchDef kQwen2;
extern const ArchDef kQwen2Moe;
extern const ArchDef kQwen2Vl;
extern const ArchDef kQwen3;
extern const ArchDef kQwen35;
extern const ArchDef kQwen35Moe;
extern const ArchDef kQwen3Moe;
extern const ArchDef kQwen3Next;
extern const ArchDef kQwen3Vl;
extern const ArchDef kQwen3VlMoe;
extern const ArchDef kRwkv7;
extern const ArchDef kSeedOss;
extern const ArchDef kSmollm3;
extern const ArchDef kStableLm;
extern const ArchDef kStarcoder;
extern const ArchDef kStarcoder2;

}  // namespace billow::arch
