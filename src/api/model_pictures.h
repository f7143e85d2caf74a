// How a model takes pictures: what stands for a picture in its prompts. Immutable; any thread.
#pragma once

#include <cstddef>
#include <variant>
#include <vector>

#include "context/picture_rule.h"
#include "image/picture.h"
#include "vision/plan.h"
#include "vision/rule.h"

namespace billow::api {

class ModelPictures {
 public:
  // For llama-server, which splits pictures and adds marks itself.
  explicit ModelPictures(const context::PictureRule& rule) : rule_(rule) {}
  // For Billow's own engine.
  explicit ModelPictures(const vision::Rule& rule) : rule_(rule) {}

  struct Space {
    // The text and the tokens that stand for the picture in the prompt; empty for llama-server.
    std::vector<vision::Piece> pieces;
    size_t n_rows = 0;  // positions of the picture besides tokens of the prompt
    // Returns the number of positions without the tokens of texts.
    size_t n_positions() const noexcept;
  };
  // Returns what a picture of this size takes. Throws Error if the model does not take such
  // pictures.
  Space space_of(image::Size size) const;

 private:
  std::variant<context::PictureRule, vision::Rule> rule_;
};

}  // namespace billow::api
