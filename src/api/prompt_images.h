// Moves the images of a request into its prompt. A template renders texts with one mark per image:
// a random word, so that no user's text can contain it. The rendered marks become the places of
// images. Pure functions; not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/generation.h"
#include "api/model_pictures.h"

namespace billow::api {

// The placeholder in texts of Ollama's clients. It shows where an image belongs.
inline constexpr std::string_view kImageMarker = "[img]";

class PromptImages {
 public:
  // If `model` is null, the model sees no images. Then callers must not pass any to add() and
  // add_raw().
  // `model` must outlive this object.
  explicit PromptImages(const ModelPictures* model = nullptr);

  // Takes the message's images and puts marks into its text. Marks replace kImageMarker if all
  // images precede a single text; otherwise they are where the images are between the texts. Image
  // parts stay, without their bytes. Throws http::StatusError (400) for an image that is not a
  // picture.
  void add(Message& message);
  // Does the same for a raw prompt. Marks replace `marker`, or precede the text.
  std::string add_raw(const std::vector<std::string>& images, std::string_view text,
                      std::string_view marker);

  struct Place {
    size_t image = 0;  // index in the order of add()
    size_t at = 0;     // offset in the text, in bytes
  };
  struct Text {
    std::string text;   // without marks
    std::string shown;  // contains "[img-0]" for the first image
    std::vector<Place> places;
  };
  Text placed(std::string_view rendered) const;

  bool empty() const noexcept { return images_.empty(); }
  size_t size() const noexcept { return images_.size(); }
  // Returns the images of the message in the i-th call of add().
  const std::vector<size_t>& of_message(size_t i) const { return of_messages_[i]; }
  // Returns what stands for the image in the prompt.
  const ModelPictures::Space& space(size_t image) const { return images_[image].space; }
  const std::shared_ptr<const std::string>& bytes(size_t image) const {
    return images_[image].bytes;
  }

 private:
  struct Image {
    std::shared_ptr<const std::string> bytes;
    ModelPictures::Space space;
  };
  size_t take(std::string bytes);
  std::string mark(size_t image) const;

  const ModelPictures* model_;
  std::string word_;  // prefix of all marks
  std::vector<Image> images_;
  std::vector<std::vector<size_t>> of_messages_;
};

// Returns the picture's pixels as a PNG file. Throws http::StatusError (400) that names the image.
// `image` counts from 0.
std::string png_of_image(const std::string& bytes, size_t image);

}  // namespace billow::api
