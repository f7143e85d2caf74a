#include "runner/pictures.h"

#include <openssl/sha.h>

#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "image/picture.h"
#include "vision/pixels.h"

namespace billow::runner {
namespace {

std::string sha256(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return {digest.begin(), digest.end()};
}

}  // namespace

std::vector<std::shared_ptr<engine::Picture>> pictures_of(
    const vision::Rule& rule, std::span<const context::PromptImage> images, uint64_t salt) {
  std::vector<std::shared_ptr<engine::Picture>> pictures;
  for (const context::PromptImage& image : images) {
    try {
      vision::Pixels pixels = vision::preprocess(rule, image::decode(image.png));
      auto picture = std::make_shared<engine::Picture>();
      picture->digest = sha256(image.png);
      if (salt != 0) picture->digest += std::to_string(salt);
      picture->tiles = std::move(pixels.plan.tiles);
      picture->patches = std::move(pixels.patches);
      pictures.push_back(std::move(picture));
    } catch (const Error& error) {
      throw Error(error.code(),
                  "image " + std::to_string(pictures.size() + 1) + ": " + error.what());
    }
  }
  return pictures;
}

}  // namespace billow::runner
