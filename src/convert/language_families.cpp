#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <utility>

#include "convert/families/families.h"
#include "convert/language_family.h"

namespace billow::convert {
namespace {

constexpr std::array kFamilies{
    &kLlama,          &kSmollm3,    &kArcee,        &kApertus,    &kSeedOss,    &kErnie45,
    &kInternLm2,      &kExaone,     &kMistral3,     &kMistral4,   &kQwen2,      &kQwen2Moe,
    &kQwen2Vl,        &kQwen3,      &kQwen3Moe,     &kQwen3Vl,    &kQwen3VlMoe, &kDots1,
    &kGemma,          &kGemma2,     &kGemma3,       &kGemma3n,    &kGemma4,     &kPhi2,
    &kGemmaEmbedding, &kPhi3,       &kPhiMoe,       &kGptOss,     &kGranite,    &kGraniteMoe,
    &kGraniteHybrid,  &kDeepseek2,  &kGlm4MoeLite,  &kGlm4,       &kGlm4Moe,    &kChatGlm,
    &kExaone4,        &kExaoneMoe,  &kOlmo,         &kOlmo2,      &kOlmoe,      &kLlama4,
    &kAfmoe,          &kErnie45Moe, &kHunyuanDense, &kHunyuanMoe, &kMinimaxM2,  &kBailingMoe2,
    &kDbrx,           &kCommandR,   &kCohere2,      &kNemotron,   &kStableLm,   &kStarcoder2,
    &kStarcoder,      &kGpt2,       &kGptNeoX,      &kFalcon,     &kBloom,      &kMpt,
    &kMiniCpm,        &kDeci,       &kQwen3Next,    &kQwen35,     &kQwen35Moe,  &kMamba,
    &kMamba2,         &kJamba,      &kFalconH1,     &kLfm2,       &kLfm2Moe,    &kKimiLinear,
    &kNemotronH,      &kRwkv7,      &kARwkv7,
};

// Models with pictures whose text part is a model of another family.
constexpr std::string_view kPictureClasses[] = {
    "Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration",
    "InternVLForConditionalGeneration", "InternVLChatModel", "Lfm2VlForConditionalGeneration"};

struct TextPart {
  std::string_view model_type;
  const LanguageFamily* family;
};
constexpr TextPart kTextParts[] = {{"llama", &kLlama},         {"mistral", &kLlama},
                                   {"qwen2", &kQwen2},         {"qwen2_moe", &kQwen2Moe},
                                   {"qwen3", &kQwen3},         {"qwen3_moe", &kQwen3Moe},
                                   {"internlm2", &kInternLm2}, {"gpt_oss", &kGptOss},
                                   {"lfm2", &kLfm2},           {"lfm2_moe", &kLfm2Moe}};

// Returns the edit distance: the number of added, removed or changed letters.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t before = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = before + (a[i - 1] == b[j - 1] ? 0 : 1);
      before = std::exchange(row[j], std::min({changed, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

}  // namespace

std::span<const LanguageFamily* const> language_families() noexcept { return kFamilies; }

const LanguageFamily* find_language_family(std::string_view class_name) noexcept {
  for (const LanguageFamily* family : kFamilies)
    if (std::ranges::find(family->classes, class_name) != family->classes.end()) return family;
  return nullptr;
}

bool has_any_text_part(std::string_view class_name) noexcept {
  return std::ranges::find(kPictureClasses, class_name) != std::end(kPictureClasses);
}

const LanguageFamily* find_text_family(std::string_view model_type) noexcept {
  const auto* part = std::ranges::find(kTextParts, model_type, &TextPart::model_type);
  return part == std::end(kTextParts) ? nullptr : part->family;
}

std::vector<std::string_view> nearest_classes(std::string_view class_name) {
  constexpr size_t kMax = 4;
  class_name = class_name.substr(0, 100);
  std::vector<std::pair<size_t, std::string_view>> all;
  for (const LanguageFamily* family : kFamilies)
    for (const std::string_view name : family->classes)
      all.emplace_back(distance(class_name, name), name);
  std::ranges::sort(all);
  std::vector<std::string_view> names;
  for (size_t i = 0; i < std::min(kMax, all.size()); ++i) names.push_back(all[i].second);
  return names;
}

}  // namespace billow::convert
