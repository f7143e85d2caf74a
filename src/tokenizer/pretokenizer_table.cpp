#include "tokenizer/pretokenizer_table.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace billow::tokenizer {
namespace {

struct Fragment {
  std::string_view name;
  std::string_view pattern;
};

// %s% is the inside of a class: Unicode White_Space. (\s of PCRE2 would add U+180E.) The
// contraction is spelled out, because a caseless match would also take U+017F for s. Classes
// without Han list what they exclude, because PCRE2 cannot intersect classes. %latin% is the fixed
// list of cased letters in the definition of deepseek-llm, an old state of \p{L&} with gaps.
constexpr Fragment kFragments[] = {
    {"s", R"(\p{Z}\t-\r\x{85})"},
    {"space", R"([%s%]*[\r\n]+|[%s%]+(?![^%s%])|[%s%]+)"},
    {"contraction", R"((?:'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])))"},
    {"lead", R"([^\r\n\p{L}\p{N}])"},
    {"symbol", R"([^%s%\p{L}\p{N}])"},
    {"upper", R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"},
    {"lower", R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"},
    {"cased", R"(%lead%?%upper%*%lower%+%contraction%?|%lead%?%upper%+%lower%*%contraction%?)"},
    {"upper-no-han", R"([^\p{sc:Han}\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}])"},
    {"lower-no-han", R"([^\p{sc:Han}\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}])"},
    {"gpt2", R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?%symbol%+|[%s%]+(?![^%s%])|[%s%]+)"},
    {"llama3", R"(%contraction%|%lead%?\p{L}+|\p{N}{1,3}| ?%symbol%+[\r\n]*|%space%)"},
    {"qwen2", R"(%contraction%|%lead%?\p{L}+|\p{N}| ?%symbol%+[\r\n]*|%space%)"},
    {"deepseek3",
     R"([!-\/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+)"
     R"([\r\n]*|%space%)"},
    {"han-kana", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+)"},
    {"han-hangul", R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"},
    {"sentence-end", R"(|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C})"},
    {"bloom", R"( ?[^()%s%%sentence-end%]+)"},
    {"latin",
     R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
     R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})"
     R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
     R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
     R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
     R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"
     R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
     R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
     R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D})"
     R"(\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
     R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
     R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3})"
     R"(\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
     R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
     R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2})"
     R"(\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"},
    {"asian-scripts",
     R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{30FF}\x{FF65}-\x{FF9F})"
     R"(\x{2F00}-\x{2FDF}\x{0E40}-\x{0EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F})"
     R"(\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)"},
    {"youtu-runs",
     R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019})"
     R"(\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+)"
     R"(|%han-kana%)"},
};

constexpr Stage kDigits{R"(\p{N})"};
constexpr Stage kThreeDigits{R"(\p{N}{1,3})"};
constexpr Stage kGpt2{"%gpt2%"};
constexpr Stage kLlama3{"%llama3%"};
constexpr Stage kQwen2{"%qwen2%"};
constexpr Stage kDeepseek3{"%deepseek3%"};
constexpr Stage kGpt4o{R"(%cased%|\p{N}{1,3}| ?%symbol%+[\r\n/]*|%space%)"};
constexpr Stage kLines{R"([^\n]+|\n+)"};

// If the published definition of a model's tokenizer and other GGUF readers differ, the pattern
// follows the definition. Groups of digits from the right are not a pattern, because the look-ahead
// for them takes quadratic time on long runs.
constexpr PreTokenizerFamily kFamilies[] = {
    {"default",
     kCleanSpaces,
     {{{R"([\p{P}$+<=>^~|]+)"}, kGpt2, {R"(\p{N}+)"}, {"[0-9][0-9][0-9]"}}}},
    {"gpt-2 phi-2 mpt olmo jais jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum "
     "modern-bert exaone4",
     kCleanSpaces,
     {{kGpt2}}},
    {"trillion granite-docling", 0, {{kGpt2}}},
    {"jina-v1-en jina-v2-code roberta-bpe", kCleanSpaces | kAddSep, {{kGpt2}}},
    {"starcoder refact codeshell exaone minerva-7b mellum2", kCleanSpaces, {{kDigits, kGpt2}}},
    {"command-r smollm", 0, {{kDigits, kGpt2}}},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     kCleanSpaces | kIgnoreMerges | kAddBos,
     {{kLlama3}}},
    {"dbrx smaug-bpe", kCleanSpaces, {{kLlama3}}},
    {"glm4 chatglm-bpe", kCleanSpaces | kNoBos, {{kLlama3}}},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 hunyuan solar-open grok-2", 0, {{kQwen2}}},
    {"stablelm2 megrez", kCleanSpaces, {{kQwen2}}},
    {"qwen35",
     0,
     {{{R"(%contraction%|%lead%?[\p{L}\p{M}]+|\p{N}| ?[^%s%\p{L}\p{M}\p{N}]+[\r\n]*|%space%)"}}}},
    {"minicpm5",
     kCleanSpaces | kIgnoreMerges,
     {{kThreeDigits, {R"(%contraction%|%lead%?\p{L}+|\p{N}+| ?%symbol%+[\r\n]*|%space%)"}}}},
    {"gpt-4o llama4 kanana2 minimax-m2 talkie", 0, {{kGpt4o}}},
    {"granite-embed-multi-97m", kIgnoreMerges, {{kGpt4o}}},
    {"tekken",
     kIgnoreMerges | kAddBos,
     {{{R"(%lead%?%upper%*%lower%+|%lead%?%upper%+%lower%*|\p{N}| ?%symbol%+[\r\n/]*|%space%)"}}}},
    {"youtu",
     kIgnoreMerges,
     {{{"%youtu-runs%"}, {R"(%cased%|\p{N}| ?%symbol%+[\r\n/]*|%space%)"}}}},
    {"tiny_aya cohere2moe",
     0,
     {{{R"((?<!\p{Nd})\p{Nd}++(?![\p{L}\p{M}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE}]))",
        Split::kThreesFromRight},
       kGpt4o}}},
    {"deepseek-llm",
     0,
     {{{R"([\r\n])"},
       {R"([%s%]?[%latin%]+)"},
       {R"([%s%]?[!-\/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)"},
       {R"([%s%]+\z)"},
       {"%han-hangul%"},
       {R"(\p{N}+)"}}}},
    {"deepseek-coder",
     0,
     {{{R"([\r\n])"}, {R"([%s%]?\p{L}+)"}, {R"([%s%]?\p{P}+)"}, {"%han-hangul%"}, kDigits}}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", 0, {{kThreeDigits, {"%han-kana%"}, kDeepseek3}}},
    {"spark2_5",
     0,
     {{kThreeDigits,
       {"%han-kana%"},
       {R"([!-\/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n])"
        R"(|[%s%]+(?![^%s%])|[%s%]+)"},
       kDigits}}},
    {"falcon", kCleanSpaces, {{{R"([\p{P}$+<=>^~|`]+)"}, kGpt2, {"[0-9][0-9][0-9]"}}}},
    {"bloom gpt3-finnish", kCleanSpaces, {{{"%bloom%"}}}},
    {"poro-chat", 0, {{{"%bloom%"}}}},
    {"viking", 0, {{{"%bloom%"}, kDigits}}},
    {"bailingmoe bailingmoe2 llada-moe",
     0,
     {{{R"(%contraction%|%lead%?\p{L}+|\p{N}| ?%symbol%+[\r\n]*|[%s%]*[\r\n])"
        R"(|[%s%]+(?![^%s%])|[%s%]+)"}}}},
    {"seed-coder", 0, {{{R"(%contraction%|%lead%?\p{L}+|\p{N}| ?[^%s%\p{L}\p{N}\r\n]+|%space%)"}}}},
    {"superbpe", 0, {{{R"(\p{N}+)"}, {R"(\p{Nd}+)", Split::kCutBeforeThrees}}}},
    {"kimi-k2",
     0,
     {{{R"(\p{sc:Han}+|%lead%?%upper-no-han%*%lower-no-han%+%contraction%?)"
        R"(|%lead%?%upper-no-han%+%lower-no-han%*%contraction%?|\p{N}{1,3}| ?%symbol%+[\r\n]*)"
        R"(|%space%)"}}}},
    {"afmoe", 0, {{{R"(\p{N}+)", Split::kThreesFromRight}, {"%asian-scripts%"}, kDeepseek3}}},
    {"exaone-moe",
     kCleanSpaces,
     {{{R"(%contraction%|%lead%?\p{L}(?:[\p{L}\p{M}]++| (?=\p{L}))*+|\p{N}| ?%symbol%+[\r\n/]?)"
        R"(|[%s%]*[\r\n]|[%s%]+(?![^%s%])|[%s%]+)"}}}},
    {"jais-2",
     kCleanSpaces,
     {{{R"(%contraction%|%lead%?\p{L}+|\p{N}{1,3}| ?%symbol%+[\r\n]*|[%s%]*[\r\n]+)"
        R"(|(?:[%s%]{512}|[%s%]{256}|[%s%]{128}|[%s%]{64}|[%s%]{32}|[%s%]{16})"
        R"(|[%s%]{8}|[%s%]{4}|[%s%]{1,2})(?![^%s%])|[%s%])"}}}},
    {"chameleon",
     kAddBos,
     {{{"<sentinel:[0-9]+>"},
       {"IMGIMG[A-I]{1,4}Z"},
       {R"([\t\n]|    |  )"},
       kDigits,
       {R"([\p{P}!-\/:-@\[-`{-~])"},
       kGpt2}}},
    {"laguna", 0, {{kLines, kQwen2}}},
    {"ufakzeka", 0, {{{R"(%lead%?\p{L}+|\p{N}| ?%symbol%+[\r\n]*|%space%)"}}}},
    {"whitespace", kCleanSpaces | kRawText, {{{"[^%s%]+"}}}},
    {"gemma4 granite-embed-multi-311m",
     kCleanSpaces | kRawText | kEscapeSpaces | kForceBos | kNewlineWords,
     {{kLines}}},
    {"sarvam-moe", kRawText | kEscapeSpaces, {{kLines}}},
};

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

std::string_view fragment(std::string_view name) {
  const auto* const found = std::ranges::find(kFragments, name, &Fragment::name);
  BILLOW_CHECK(found != std::end(kFragments));
  return found->pattern;
}

}  // namespace

std::span<const PreTokenizerFamily> pre_tokenizer_families() noexcept { return kFamilies; }

const PreTokenizerFamily* find_pre_tokenizer_family(std::string_view name) noexcept {
  for (const PreTokenizerFamily& family : kFamilies) {
    if (lists(family.names, name)) return &family;
  }
  return nullptr;
}

std::string expand_pattern(std::string_view pattern) {
  std::string out;
  while (true) {
    const size_t begin = pattern.find('%');
    out += pattern.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    const size_t end = pattern.find('%', begin + 1);
    BILLOW_CHECK(end != std::string_view::npos);
    out += expand_pattern(fragment(pattern.substr(begin + 1, end - begin - 1)));
    pattern.remove_prefix(end + 1);
  }
}

}  // namespace billow::tokenizer
