// The language model families that the converter supports, and functions that several families
// share. language_families.cpp has a table with one row per family. Constants, thread-safe.
#pragma once

#include "convert/language_family.h"

namespace billow::convert {

extern const LanguageFamily kARwkv7;
extern const LanguageFamily kAfmoe;
extern const LanguageFamily kApertus;
extern const LanguageFamily kArcee;
extern const LanguageFamily kBailingMoe2;
extern const LanguageFamily kBloom;
extern const LanguageFamily kChatGlm;
extern const LanguageFamily kCohere2;
extern const LanguageFamily kCommandR;
extern const LanguageFamily kDbrx;
extern const LanguageFamily kDeci;
extern const LanguageFamily kDeepseek2;
extern const LanguageFamily kDots1;
extern const LanguageFamily kErnie45;
extern const LanguageFamily kErnie45Moe;
extern const LanguageFamily kExaone;
extern const LanguageFamily kExaone4;
extern const LanguageFamily kExaoneMoe;
extern const LanguageFamily kFalcon;
extern const LanguageFamily kFalconH1;
extern const LanguageFamily kGemma;
extern const LanguageFamily kGemma2;
extern const LanguageFamily kGemma3;
extern const LanguageFamily kGemma3n;
extern const LanguageFamily kGemmaEmbedding;
extern const LanguageFamily kGemma4;
extern const LanguageFamily kGlm4;
extern const LanguageFamily kGlm4Moe;
extern const LanguageFamily kGlm4MoeLite;
extern const LanguageFamily kGpt2;
extern const LanguageFamily kGptNeoX;
extern const LanguageFamily kGptOss;
extern const LanguageFamily kGranite;
extern const LanguageFamily kGraniteHybrid;
extern const LanguageFamily kGraniteMoe;
extern const LanguageFamily kHunyuanDense;
extern const LanguageFamily kHunyuanMoe;
extern const LanguageFamily kInternLm2;
extern const LanguageFamily kJamba;
extern const LanguageFamily kKimiLinear;
extern const LanguageFamily kLfm2;
extern const LanguageFamily kLfm2Moe;
extern const LanguageFamily kLlama;
extern const LanguageFamily kLlama4;
extern const LanguageFamily kMamba;
extern const LanguageFamily kMamba2;
extern const LanguageFamily kMiniCpm;
extern const LanguageFamily kMinimaxM2;
extern const LanguageFamily kMistral3;
extern const LanguageFamily kMistral4;
extern const LanguageFamily kMpt;
extern const LanguageFamily kNemotron;
extern const LanguageFamily kNemotronH;
extern const LanguageFamily kOlmo;
extern const LanguageFamily kOlmo2;
extern const LanguageFamily kOlmoe;
extern const LanguageFamily kPhi2;
extern const LanguageFamily kPhi3;
extern const LanguageFamily kPhiMoe;
extern const LanguageFamily kQwen2;
extern const LanguageFamily kQwen2Moe;
extern const LanguageFamily kQwen2Vl;
extern const LanguageFamily kQwen3;
extern const LanguageFamily kQwen35;
extern const LanguageFamily kQwen35Moe;
extern const LanguageFamily kQwen3Moe;
extern const LanguageFamily kQwen3Next;
extern const LanguageFamily kQwen3Vl;
extern const LanguageFamily kQwen3VlMoe;
extern const LanguageFamily kRwkv7;
extern const LanguageFamily kSeedOss;
extern const LanguageFamily kSmollm3;
extern const LanguageFamily kStableLm;
extern const LanguageFamily kStarcoder;
extern const LanguageFamily kStarcoder2;

// Writes the keys of models with latent attention.
void latent_attention_keys(const LanguageModel& model, KeyWriter& keys);
// Writes the keys of Gemma 3 and of its successors.
void gemma3_keys(const LanguageModel& model, KeyWriter& keys);

}  // namespace billow::convert
