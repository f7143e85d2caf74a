#include "quantize/file_type.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace billow::quantize {
namespace {

using enum quant::Type;
using C = Class;

// The mixtures of llama-quantize: one list of rules for each.
constexpr Rule kRulesOfQ2K[] = {
    {C::kValue, kQ4_K, When::kGqa4},
    {C::kValue, kQ3_K},
    {C::kAttentionOutput, kQ5_K, When::kExperts8, For::kOthers},
    {C::kAttentionOutput, kQ3_K, When::kAlways, For::kOthers},
    {C::kDown, kQ3_K},
};
constexpr Rule kRulesOfQ2KS[] = {
    {C::kValue, kQ4_K, When::kGqa4},
    {C::kDown, kQ4_K, When::kFirstEighth},
};
// Q3_K_S has only this rule. Other mixtures repeat it among their rules.
constexpr Rule kRulesOfQ3KS[] = {
    {C::kAttentionOutput, kQ5_K, When::kExperts8, For::kOthers},
};
constexpr Rule kRulesOfQ3KM[] = {
    {C::kValue, kQ5_K, When::kFirst2},
    {C::kValue, kQ4_K},
    {C::kAttentionOutput, kQ5_K, When::kExperts8, For::kOthers},
    {C::kAttentionOutput, kQ4_K, When::kAlways, For::kOthers},
    {C::kDown, kQ5_K, When::kFirstSixteenth},
    {C::kDown, kQ4_K, When::kMore, For::kFalcon},
    {C::kDown, kQ4_K, When::kAlways, For::kOthers},
};
constexpr Rule kRulesOfQ3KL[] = {
    {C::kValue, kQ5_K},
    {C::kAttentionOutput, kQ4_K, When::kAlways, For::kFalcon},
    {C::kAttentionOutput, kQ3_K, When::kExperts8},
    {C::kAttentionOutput, kQ5_K},
    {C::kDown, kQ4_K, When::kAlways, For::kFalcon},
    {C::kDown, kQ5_K},
};
constexpr Rule kRulesOfQ4KS[] = {
    {C::kValue, kQ5_K, When::kFirst4},
    {C::kAttentionOutput, kQ5_K, When::kExperts8, For::kOthers},
    {C::kDown, kQ5_K, When::kFirstEighth, For::kOthers},
};
constexpr Rule kRulesOfQ4KM[] = {
    {C::kValue, kQ6_K, When::kMore},
    {C::kAttentionOutput, kQ5_K, When::kExperts8, For::kOthers},
    {C::kDown, kQ6_K, When::kFirstSixteenth, For::kFalcon},
    {C::kDown, kQ5_K, When::kMore, For::kFalcon},
    {C::kDown, kQ6_K, When::kMore, For::kOthers},
};
constexpr Rule kRulesOfQ5KM[] = {
    {C::kValue, kQ6_K, When::kMore},
    {C::kDown, kQ6_K, When::kMore},
};
constexpr Rule kRulesOfQ40[] = {{C::kDown, kQ4_1, When::kImportanceFirstEighth}};
constexpr Rule kRulesOfQ50[] = {{C::kDown, kQ5_1, When::kImportanceFirstEighth}};
constexpr Rule kRulesOfIq4[] = {
    {C::kValue, kQ5_K, When::kGqa4},
    {C::kAttentionOutput, kQ5_K, When::kExperts8, For::kOthers},
    {C::kDown, kQ5_K, When::kNoImportanceFirstEighth},
};
constexpr Rule kRulesOfIq3S[] = {
    {C::kValue, kQ4_K, When::kGqa4},
    {C::kAttentionOutput, kQ5_K, When::kExperts8, For::kOthers},
};
constexpr Rule kRulesOfIq3M[] = {
    {C::kValue, kQ4_K},
    {C::kAttentionOutput, kQ5_K, When::kExperts8, For::kOthers},
    {C::kAttentionOutput, kQ4_K, When::kAlways, For::kOthers},
    {C::kDown, kQ4_K, When::kFirstEighth},
    {C::kDown, kQ4_K, When::kExperts8AndMore},
};
constexpr Rule kRulesOfIq3Xs[] = {
    {C::kValue, kQ4_K, When::kGqa4},
    {C::kKey, kIQ3_XXS},
    {C::kQuery, kIQ3_XXS},
    {C::kAttentionOutput, kQ5_K, When::kExperts8, For::kOthers},
    {C::kGate, kIQ3_XXS, When::kMiddle},
    {C::kUp, kIQ3_XXS, When::kMiddle},
};
constexpr Rule kRulesOfIq3Xxs[] = {
    {C::kEmbedding, kIQ3_S},
    {C::kValue, kQ4_K, When::kGqa4},
    {C::kValue, kIQ3_S, When::kNoImportance},
    {C::kKey, kIQ2_S},
    {C::kQuery, kIQ2_S},
    {C::kAttentionOutput, kQ5_K, When::kExperts8, For::kOthers},
    {C::kAttentionOutput, kIQ3_S, When::kAlways, For::kOthers},
    {C::kDown, kQ4_K, When::kNoImportanceFirstEighth},
    {C::kDown, kQ3_K, When::kNoImportance},
};
constexpr Rule kRulesOfIq2Xs[] = {
    {C::kEmbedding, kQ2_K},
    {C::kValue, kQ4_K, When::kGqa4OrExperts4},
    {C::kValue, kQ2_K},
    {C::kKey, kQ4_K, When::kExperts8},
    {C::kAttentionOutput, kQ5_K, When::kExperts8},
    {C::kDown, kQ2_K, When::kFirstEighth},
};
constexpr Rule kRulesOfIq2S[] = {
    {C::kEmbedding, kIQ3_S},
    {C::kValue, kQ4_K, When::kGqa4OrExperts4},
    {C::kValue, kIQ3_S},
    {C::kKey, kQ4_K, When::kExperts8},
    {C::kAttentionOutput, kQ5_K, When::kExperts8},
    {C::kAttentionOutput, kIQ3_S},
    {C::kDown, kIQ3_S, When::kFirstEighth},
};
constexpr Rule kRulesOfIq1[] = {
    {C::kEmbedding, kQ2_K},
    {C::kValue, kQ4_K, When::kGqa4OrExperts4},
    {C::kValue, kQ2_K},
    {C::kKey, kQ4_K, When::kExperts8},
    {C::kAttentionOutput, kQ5_K, When::kExperts8},
    {C::kAttentionOutput, kIQ2_XXS},
    {C::kDown, kQ2_K, When::kFirstEighth},
};
constexpr Rule kRulesOfTernary[] = {{C::kEmbedding, kQ4_K}};

// The numbers are those of the key general.file_type.
constexpr FileType kFileTypes[] = {
    {"F32", {}, 0, kF32, kF32, {}},
    {"F16", {}, 1, kF16, kF16, {}},
    {"BF16", {}, 32, kBF16, kBF16, {}},
    {"Q8_0", {}, 7, kQ8_0, kQ8_0, {}},
    {"Q6_K", {}, 18, kQ6_K, kQ6_K, {}},
    {"Q5_K_M", "Q5_K", 17, kQ5_K, kQ6_K, kRulesOfQ5KM},
    {"Q5_K_S", {}, 16, kQ5_K, kQ6_K, {}},
    {"Q5_1", {}, 9, kQ5_1, kQ6_K, {}},
    {"Q5_0", {}, 8, kQ5_0, kQ6_K, kRulesOfQ50},
    {"Q4_K_M", "Q4_K", 15, kQ4_K, kQ6_K, kRulesOfQ4KM},
    {"Q4_K_S", {}, 14, kQ4_K, kQ6_K, kRulesOfQ4KS},
    {"Q4_1", {}, 3, kQ4_1, kQ6_K, {}},
    {"Q4_0", {}, 2, kQ4_0, kQ6_K, kRulesOfQ40},
    {"IQ4_NL", {}, 25, kIQ4_NL, kQ6_K, kRulesOfIq4},
    {"IQ4_XS", {}, 30, kIQ4_XS, kQ6_K, kRulesOfIq4},
    {"MXFP4_MOE", {}, 38, kMXFP4, kQ8_0, {}, false, true},
    {"Q3_K_L", {}, 13, kQ3_K, kQ6_K, kRulesOfQ3KL},
    {"Q3_K_M", "Q3_K", 12, kQ3_K, kQ6_K, kRulesOfQ3KM},
    {"Q3_K_S", {}, 11, kQ3_K, kQ6_K, kRulesOfQ3KS},
    {"IQ3_M", {}, 27, kIQ3_S, kQ6_K, kRulesOfIq3M},
    {"IQ3_S", {}, 26, kIQ3_S, kQ6_K, kRulesOfIq3S},
    {"IQ3_XS", {}, 22, kIQ3_S, kQ6_K, kRulesOfIq3Xs},
    {"IQ3_XXS", {}, 23, kIQ3_XXS, kQ5_K, kRulesOfIq3Xxs},
    {"Q2_K", {}, 10, kQ2_K, kQ6_K, kRulesOfQ2K},
    {"Q2_K_S", {}, 21, kQ2_K, kQ6_K, kRulesOfQ2KS, false, false, true},
    {"IQ2_M", {}, 29, kIQ2_S, kQ5_K, kRulesOfIq2S, true},
    {"IQ2_S", {}, 28, kIQ2_XS, kQ5_K, kRulesOfIq2S, true},
    {"IQ2_XS", {}, 20, kIQ2_XS, kQ5_K, kRulesOfIq2Xs, true},
    {"IQ2_XXS", {}, 19, kIQ2_XXS, kQ5_K, kRulesOfIq2Xs, true},
    {"IQ1_M", {}, 31, kIQ1_M, kQ5_K, kRulesOfIq1, true},
    {"IQ1_S", {}, 24, kIQ1_S, kQ5_K, kRulesOfIq1, true},
    {"TQ2_0", {}, 37, kTQ2_0, kQ6_K, kRulesOfTernary},
    {"TQ1_0", {}, 36, kTQ1_0, kQ6_K, kRulesOfTernary},
    {"Q2_0", {}, 41, kQ2_0, kQ6_K, kRulesOfTernary},
    {"Q1_0", {}, 40, kQ1_0, kQ6_K, {}},
    {"COPY", {}, std::nullopt, kF32, kF32, {}},
};

}  // namespace

std::vector<std::string_view> file_type_names() {
  std::vector<std::string_view> names;
  for (const FileType& row : kFileTypes) names.push_back(row.name);
  return names;
}

const FileType* find_file_type(std::string_view name) noexcept {
  for (const FileType& row : kFileTypes) {
    if (equal_ignoring_case(name, row.name)) return &row;
    if (!row.alias.empty() && equal_ignoring_case(name, row.alias)) return &row;
  }
  return nullptr;
}

}  // namespace billow::quantize
