#include "convert/tensor_name.h"

#include <algorithm>
#include <array>

namespace billow::convert {
namespace {

constexpr size_t kMaxDigits = 9;

constexpr std::array<std::string_view, 4> kLimits = {".input_min", ".input_max", ".output_min",
                                                     ".output_max"};

// Words in the tensor names of models with several parts. The first table has words that count only
// at the beginning of a name, because the text part may have them elsewhere.
constexpr std::array<std::string_view, 16> kOtherBeginnings = {"mlp",
                                                               "vit.",
                                                               "vpm.",
                                                               "siglip2.",
                                                               "conformer.",
                                                               "merger.",
                                                               "resampler.",
                                                               "aligner.",
                                                               "sound_encoder.",
                                                               "sound_projection.",
                                                               "speech_embeddings.",
                                                               "mlp1.",
                                                               "mm_projector.",
                                                               "multi_modal_projector.",
                                                               "embed_vision.",
                                                               "embed_audio."};
constexpr std::array<std::string_view, 18> kOtherWords = {
    "visual.",          "vision.",        "audio.",      "talker.",       "vision_",
    "audio_",           "token2wav.",     "code2wav.",   "projector.",    "pre_mm_projector_norm",
    "image_newline",    "view_seperator", "patch_embed", "patch_merger.", "patch_merge_mlp.",
    "model.connector.", "embed_vision.",  "embed_audio."};

constexpr std::array<std::string_view, 7> kSoundWords = {
    "audio", "sound", "speech", "talker.", "token2wav.", "code2wav.", "conformer."};

bool is_number(std::string_view part) {
  return !part.empty() && part.size() <= kMaxDigits &&
         std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
}

uint32_t number_of(std::string_view digits) {
  uint32_t value = 0;
  for (const char c : digits) value = value * 10 + static_cast<uint32_t>(c - '0');
  return value;
}

std::string_view limit_of(std::string_view name) {
  const auto* limit = std::ranges::find_if(
      kLimits, [name](std::string_view suffix) { return name.ends_with(suffix); });
  return limit == kLimits.end() ? std::string_view() : *limit;
}

std::string_view suffix_of(std::string_view name) {
  for (const std::string_view suffix : {".weight", ".bias"})
    if (name.ends_with(suffix)) return suffix;
  return limit_of(name);
}

void remove(std::string& text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at))
    text.erase(at, word.size());
}

}  // namespace

TensorName parse_tensor_name(std::string_view name) {
  TensorName parsed;
  parsed.suffix = suffix_of(name);
  name.remove_suffix(parsed.suffix.size());
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (at != 0) parsed.pattern += '.';
    if (!is_number(part)) {
      parsed.pattern += part;
    } else if (!parsed.layer) {
      parsed.layer = number_of(part);
      parsed.pattern += '#';
    } else {
      parsed.number = number_of(part);
      parsed.pattern += '*';
    }
    at = end + 1;
  }
  return parsed;
}

bool is_limit(std::string_view name) { return !limit_of(name).empty(); }

bool has_suffix(std::string_view target) {
  return target.ends_with(".weight") || target.ends_with(".bias") || target.ends_with(".scale");
}

bool is_of_other_part(std::string_view name) {
  const auto begins = [&](std::string_view word) { return name.starts_with(word); };
  const auto has = [&](std::string_view word) { return name.find(word) != std::string_view::npos; };
  return std::ranges::any_of(kOtherBeginnings, begins) || std::ranges::any_of(kOtherWords, has);
}

bool is_of_sounds(std::string_view name) {
  return std::ranges::any_of(kSoundWords, [&](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  });
}

bool is_of_no_use(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".rotary_pos_emb.inv_freq") ||
         name.ends_with(".attention.masked_bias") || name.ends_with(".attention.bias") ||
         name.ends_with(".attn.masked_bias") || name.ends_with(".attn.bias");
}

std::string without_part(std::string_view name) {
  std::string text(name);
  remove(text, "language_model.");
  remove(text, "text_model.");
  if (text.starts_with("thinker.")) text.erase(0, std::string_view("thinker.").size());
  return text;
}

std::string picture_name(std::string_view name) {
  constexpr std::string_view kTower = "vision_tower.";
  constexpr std::string_view kModel = "vision_model.";
  const auto take = [&](std::string_view word) {
    if (!name.starts_with(word)) return false;
    name.remove_prefix(word.size());
    return true;
  };
  take("model.");
  const bool has_tower = take(kTower);
  const bool has_model = take(kModel);
  return (has_tower || has_model ? std::string(kTower) : std::string()) + std::string(name);
}

}  // namespace billow::convert
