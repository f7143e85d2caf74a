// The chat text around the tiles of a picture, for each family: replace_image_token() of
// transformers, models/FAMILY/processing_FAMILY.py. Pure functions; any thread. REQUIRES: a plan
// with views and tiles.
#pragma once

#include <vector>

#include "vision/plan.h"

namespace billow::vision {

std::vector<Piece> gemma3_pieces(const Plan& plan);
std::vector<Piece> gemma4_pieces(const Plan& plan);
std::vector<Piece> idefics3_pieces(const Plan& plan);
// The chat template writes the marks around the picture.
std::vector<Piece> qwen_pieces(const Plan& plan);
// Adds a mark after each row of tokens.
std::vector<Piece> pixtral_pieces(const Plan& plan);
std::vector<Piece> lfm2_pieces(const Plan& plan);
std::vector<Piece> internvl_pieces(const Plan& plan);
std::vector<Piece> llama4_pieces(const Plan& plan);

}  // namespace billow::vision
