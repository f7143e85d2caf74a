// Images of a request on their way into its prompt. While a template renders the messages, a mark
// stands for each image: a word that nobody can guess, so that no text of a user has it. In the
// text that comes out, marks become places of images. Pure; one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/generation.h"
#include "context/picture_rule.h"

namespace billow::api {

// What stands for an image in texts of Ollama's clients, who may say by it where it belongs.
inline constexpr std::string_view kImageMarker = "[img]";

class PromptImages {
 public:
  // Null: the model sees no images, and add() and add_raw() are given none.
  explicit PromptImages(const context::PictureRule* rule = nullptr);

  // Takes the message's images and puts marks into its text: where the images stand between the
  // texts, or in place of kImageMarker where all images stand before one text. Parts that are
  // images stay, without their bytes. Throws http::StatusError (400) for what is no picture.
  void add(Message& message);
  // The same for a prompt that goes as it is: in place of `marker`, or before the text.
  std::string add_raw(const std::vector<std::string>& images, std::string_view text,
                      std::string_view marker);

  struct Place {
    size_t image = 0;  // in the order of add()
    size_t at = 0;     // bytes of the text before it
  };
  struct Text {
    std::string text;   // without marks
    std::string shown;  // with "[img-0]" for the first image
    std::vector<Place> places;
  };
  Text placed(std::string_view rendered) const;

  bool empty() const noexcept { return images_.empty(); }
  size_t size() const noexcept { return images_.size(); }
  // Images of the message that was the i-th of add().
  const std::vector<size_t>& of_message(size_t i) const { return of_messages_[i]; }
  size_t rows(size_t image) const { return images_[image].n_rows; }
  const std::shared_ptr<const std::string>& bytes(size_t image) const {
    return images_[image].bytes;
  }

 private:
  struct Image {
    std::shared_ptr<const std::string> bytes;
    size_t n_rows = 0;
  };
  size_t take(std::string bytes);
  std::string mark(size_t image) const;

  const context::PictureRule* rule_;
  std::string word_;  // that marks begin with
  std::vector<Image> images_;
  std::vector<std::vector<size_t>> of_messages_;
};

// The picture's pixels as a PNG file. Throws http::StatusError (400) that names the image, counted
// from 0.
std::string png_of_image(const std::string& bytes, size_t image);

}  // namespace billow::api
