#include "vision/pieces.h"

#include <string>
#include <string_view>
#include <utility>

namespace billow::vision {
namespace {

// Collects pieces. Joins neighbours of the same kind.
class Pieces {
 public:
  Pieces& text(std::string_view text) {
    if (pieces_.empty() || pieces_.back().n_tokens > 0) pieces_.emplace_back();
    pieces_.back().text += text;
    return *this;
  }
  Pieces& tokens(size_t n) {
    if (pieces_.empty() || pieces_.back().n_tokens == 0) pieces_.emplace_back();
    pieces_.back().n_tokens += n;
    return *this;
  }
  std::vector<Piece> take() { return std::move(pieces_); }

 private:
  std::vector<Piece> pieces_;
};

std::vector<Piece> enclosed(std::string_view begin, size_t n_tokens, std::string_view end) {
  return Pieces().text(begin).tokens(n_tokens).text(end).take();
}

// "PREFIX<row>MIDDLE<col>END", counted from 1.
std::string place(std::string_view prefix, size_t row, std::string_view middle, size_t col,
                  std::string_view end) {
  std::string text(prefix);
  return text.append(std::to_string(row + 1))
      .append(middle)
      .append(std::to_string(col + 1))
      .append(end);
}

}  // namespace

std::vector<Piece> gemma3_pieces(const Plan& plan) {
  return enclosed("\n\n<start_of_image>", plan.n_tokens, "<end_of_image>\n\n");
}

std::vector<Piece> gemma4_pieces(const Plan& plan) {
  return enclosed("<|image>", plan.n_tokens, "<image|>");
}

std::vector<Piece> qwen_pieces(const Plan& plan) { return Pieces().tokens(plan.n_tokens).take(); }

std::vector<Piece> internvl_pieces(const Plan& plan) {
  return enclosed("<img>", plan.n_tokens, "</img>");
}

std::vector<Piece> idefics3_pieces(const Plan& plan) {
  constexpr std::string_view kMark = "<fake_token_around_image>";
  const View& grid = plan.views[1];
  Pieces pieces;
  if (plan.tiles.size() > 1) {
    for (size_t row = 0; row < grid.rows; ++row) {
      for (size_t col = 0; col < grid.cols; ++col)
        pieces.text(kMark)
            .text(place("<row_", row, "_col_", col, ">"))
            .tokens(plan.tiles.front().n_tokens());
      pieces.text("\n");
    }
    pieces.text("\n");
  }
  return pieces.text(kMark)
      .text("<global-img>")
      .tokens(plan.tiles.back().n_tokens())
      .text(kMark)
      .take();
}

std::vector<Piece> pixtral_pieces(const Plan& plan) {
  const Tile& tile = plan.tiles.front();  // the only one
  Pieces pieces;
  for (size_t row = 0; row < tile.token_rows; ++row)
    pieces.tokens(tile.token_cols).text(row + 1 < tile.token_rows ? "[IMG_BREAK]" : "[IMG_END]");
  return pieces.take();
}

std::vector<Piece> lfm2_pieces(const Plan& plan) {
  const View& grid = plan.views.front();
  Pieces pieces;
  pieces.text("<|image_start|>");
  if (plan.tiles.size() > 1) {
    for (size_t row = 0; row < grid.rows; ++row)
      for (size_t col = 0; col < grid.cols; ++col)
        pieces.text(place("<|img_row_", row, "_col_", col, "|>"))
            .tokens(plan.tiles.front().n_tokens());
    pieces.text("<|img_thumbnail|>");
  }
  return pieces.tokens(plan.tiles.back().n_tokens()).text("<|image_end|>").take();
}

std::vector<Piece> llama4_pieces(const Plan& plan) {
  const View& grid = plan.views.front();
  Pieces pieces;
  pieces.text("<|image_start|>");
  if (plan.tiles.size() > 1) {
    for (size_t row = 0; row < grid.rows; ++row) {
      for (size_t col = 0; col < grid.cols; ++col) {
        if (col > 0) pieces.text("<|tile_x_separator|>");
        pieces.tokens(plan.tiles.front().n_tokens());
      }
      pieces.text("<|tile_y_separator|>");
    }
  }
  return pieces.text("<|image|>").tokens(plan.tiles.back().n_tokens()).text("<|image_end|>").take();
}

}  // namespace billow::vision
