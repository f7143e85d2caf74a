#include "api/model_pictures.h"

namespace billow::api {

size_t ModelPictures::Space::n_positions() const noexcept {
  size_t n = n_rows;
  for (const vision::Piece& piece : pieces) n += piece.n_tokens;
  return n;
}

ModelPictures::Space ModelPictures::space_of(image::Size size) const {
  if (const auto* rule = std::get_if<context::PictureRule>(&rule_))
    return {.pieces = {}, .n_rows = context::max_rows(*rule, size.width, size.height)};
  const auto& rule = std::get<vision::Rule>(rule_);
  return {.pieces = vision::pieces_in_text(rule, vision::plan_of(rule, size)), .n_rows = 0};
}

}  // namespace billow::api
