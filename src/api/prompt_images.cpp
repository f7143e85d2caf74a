#include "api/prompt_images.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "api/random_id.h"
#include "base/error.h"
#include "http/status.h"
#include "image/picture.h"

namespace billow::api {
namespace {

// Max ratio of the longer side to the shorter one. Models that keep a picture's shape would need
// too many rows for longer pictures.
constexpr uint64_t kMaxRatio = 200;

[[noreturn]] void refuse(size_t image, const std::string& why) {
  throw http::StatusError(400, "image " + std::to_string(image + 1) + ": " + why);
}

image::Size checked_size(const std::string& bytes, size_t image) {
  image::Size size;
  try {
    size = image::size_of(bytes);
  } catch (const Error& error) {
    refuse(image, error.what());
  }
  const uint64_t longer = std::max(size.width, size.height);
  if (longer > kMaxRatio * std::min(size.width, size.height))
    refuse(image, "the picture has " + std::to_string(size.width) + " x " +
                      std::to_string(size.height) + " pixels: one side is more than " +
                      std::to_string(kMaxRatio) + " times as long as the other");
  return size;
}

}  // namespace

PromptImages::PromptImages(const ModelPictures* model)
    : model_(model), word_(random_id("ximg", 32)) {}

// A mark has only letters and digits, so that no template escapes it.
std::string PromptImages::mark(size_t image) const { return word_ + std::to_string(image) + "x"; }

size_t PromptImages::take(std::string bytes) {
  const size_t image = images_.size();
  const image::Size size = checked_size(bytes, image);
  ModelPictures::Space space;
  try {
    if (model_ != nullptr) space = model_->space_of(size);
  } catch (const Error& error) {
    refuse(image, error.what());
  }
  images_.push_back({std::make_shared<const std::string>(std::move(bytes)), std::move(space)});
  return image;
}

void PromptImages::add(Message& message) {
  std::vector<size_t>& own = of_messages_.emplace_back();
  if (message.n_images() == 0) return;
  std::string text;
  bool is_after_text = false;
  size_t n_before = 0;  // images before the first text
  size_t n_texts = 0;
  for (Part& part : message.parts) {
    if (auto* image = std::get_if<ImagePart>(&part)) {
      own.push_back(take(std::exchange(image->bytes, {})));
      text += mark(own.back());
      is_after_text = false;
      n_before += n_texts == 0 ? 1 : 0;
    } else if (const auto* one = std::get_if<TextPart>(&part);
               one != nullptr && !one->text.empty()) {
      if (is_after_text) text += "\n\n";
      text += one->text;
      is_after_text = true;
      ++n_texts;
    }
  }
  if (n_texts == 1 && n_before == own.size()) {
    size_t marks = 0;
    for (const size_t image : own) marks += mark(image).size();
    std::string words = text.substr(marks);
    text.clear();
    for (const size_t image : own) {
      const size_t at = words.find(kImageMarker);
      if (at == std::string::npos)
        text += mark(image);
      else
        words.replace(at, kImageMarker.size(), mark(image));
    }
    text += words;
  }
  std::erase_if(message.parts,
                [](const Part& part) { return std::holds_alternative<TextPart>(part); });
  message.parts.emplace_back(TextPart{std::move(text)});
}

std::string PromptImages::add_raw(const std::vector<std::string>& images, std::string_view text,
                                  std::string_view marker) {
  std::string before;
  std::string rest(text);
  for (const std::string& bytes : images) {
    const size_t image = take(bytes);
    const std::string numbered = "[img-" + std::to_string(image) + "]";
    size_t length = marker.size();
    size_t at = rest.find(marker);
    if (at == std::string::npos && marker == kImageMarker) {
      at = rest.find(numbered);
      length = numbered.size();
    }
    if (at == std::string::npos)
      before += mark(image);
    else
      rest.replace(at, length, mark(image));
  }
  return before + rest;
}

PromptImages::Text PromptImages::placed(std::string_view rendered) const {
  Text out;
  for (;;) {
    const size_t at = images_.empty() ? std::string_view::npos : rendered.find(word_);
    out.text += rendered.substr(0, at);
    out.shown += rendered.substr(0, at);
    if (at == std::string_view::npos) return out;
    rendered.remove_prefix(at + word_.size());
    size_t image = 0;
    const auto [end, error] =
        std::from_chars(rendered.data(), rendered.data() + rendered.size(), image);
    // A template may cut texts and break a mark. A broken mark is ignored.
    if (error != std::errc() || image >= images_.size()) continue;
    rendered.remove_prefix(static_cast<size_t>(end - rendered.data()));
    if (rendered.starts_with('x')) rendered.remove_prefix(1);
    out.places.push_back({image, out.text.size()});
    out.shown += "[img-" + std::to_string(image) + "]";
  }
}

std::string png_of_image(const std::string& bytes, size_t image) {
  try {
    return image::encode_png(image::decode(bytes));
  } catch (const Error& error) {
    refuse(image, error.what());
  }
}

}  // namespace billow::api
