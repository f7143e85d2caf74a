#include "engine/pictures.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace billow::engine {
namespace {

// Mixes all bits of a number (Steele et al., "Fast splittable pseudorandom number generators").
uint64_t mixed(uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t number_of(const std::string& digest) noexcept {
  uint64_t number = digest.size();
  for (size_t at = 0; at < digest.size(); at += sizeof(number)) {
    uint64_t part = 0;
    std::memcpy(&part, digest.data() + at, std::min(sizeof(part), digest.size() - at));
    number = mixed(number + part);
  }
  return number;
}

int32_t id_of_token(uint64_t picture, size_t token) noexcept {
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15u;
  constexpr uint64_t kMask = 0x7FFFFFFF;
  return -1 - static_cast<int32_t>(mixed(picture + (token + 1) * kStep) & kMask);
}

}  // namespace

size_t Picture::n_tokens() const noexcept {
  size_t n = 0;
  for (const vision::Tile& tile : tiles) n += tile.n_tokens();
  return n;
}

PlacedPictures::PlacedPictures(std::vector<int32_t>& tokens,
                               std::span<const std::shared_ptr<Picture>> pictures, bool whole)
    : pictures_(pictures.begin(), pictures.end()) {
  size_t index = 0;
  const auto skip_text = [&] {
    while (index < tokens.size() && tokens[index] != kPictureToken) ++index;
  };
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::kInvalidInput, "the prompt " + why);
  };
  for (size_t picture = 0; picture < pictures_.size(); ++picture) {
    const uint64_t number = number_of(pictures_[picture]->digest);
    size_t token = 0;  // of the picture
    for (const vision::Tile& tile : pictures_[picture]->tiles) {
      for (size_t left = tile.n_tokens(); left > 0;) {
        skip_text();
        Run run = {.begin = index, .picture = picture, .first = token, .n_cols = tile.token_cols};
        for (; left > 0 && index < tokens.size() && tokens[index] == kPictureToken; --left)
          tokens[index++] = id_of_token(number, token++);
        run.n = index - run.begin;
        if (run.n == 0) refuse("has fewer tokens of pictures than its pictures need");
        if (whole && left > 0) refuse("has other tokens within a tile of a picture");
        run.position = run.begin == 0 ? 0 : grid(run.begin - 1).time + 1;
        if (!runs_.empty() && runs_.back().end() == run.begin) run.position = runs_.back().next;
        run.next = run.position + (whole ? std::max(tile.token_rows, tile.token_cols)
                                         : static_cast<uint32_t>(run.n));
        runs_.push_back(run);
      }
    }
  }
  skip_text();
  if (index < tokens.size()) refuse("has more tokens of pictures than its pictures");
}

const PlacedPictures::Run* PlacedPictures::run_before(size_t index) const noexcept {
  const auto after = std::ranges::upper_bound(runs_, index, {}, &Run::begin);
  return after == runs_.begin() ? nullptr : &*std::prev(after);
}

size_t PlacedPictures::next_without_embeddings(size_t index) const noexcept {
  const auto found =
      std::ranges::find_if(runs_, [&](const Run& run) { return lacks_embeddings(run, index); });
  return found == runs_.end() ? SIZE_MAX : std::max(index, found->begin);
}

std::vector<std::shared_ptr<Picture>> PlacedPictures::without_embeddings(size_t index) const {
  std::vector<std::shared_ptr<Picture>> pictures;
  for (const Run& run : runs_) {
    const std::shared_ptr<Picture>& picture = pictures_[run.picture];
    if (lacks_embeddings(run, index) && (pictures.empty() || pictures.back() != picture))
      pictures.push_back(picture);
  }
  return pictures;
}

const float* PlacedPictures::embedding(size_t index, size_t n_floats) const noexcept {
  const Run* const run = run_before(index);
  if (run == nullptr || index >= run->end()) return nullptr;
  const std::vector<float>& embeddings = *pictures_[run->picture]->embeddings;
  return embeddings.data() + (run->first + index - run->begin) * n_floats;
}

nn::GridPosition PlacedPictures::grid(size_t index) const noexcept {
  const Run* const run = run_before(index);
  if (run != nullptr && index < run->end()) {
    const auto within = static_cast<uint32_t>(index - run->begin);
    return {run->position, run->position + within / run->n_cols,
            run->position + within % run->n_cols};
  }
  const size_t position = run == nullptr ? index : run->next + (index - run->end());
  const auto at = static_cast<uint32_t>(position);
  return {at, at, at};
}

size_t PlacedPictures::last_of_tile(size_t index) const noexcept {
  const Run* const run = run_before(index);
  return run != nullptr && index < run->end() ? run->end() - 1 : index;
}

size_t PlacedPictures::whole_tiles(size_t index, size_t n) const noexcept {
  const size_t end = index + n;
  const Run* const run = run_before(end);
  if (run == nullptr || end >= run->end() || end == run->begin) return n;
  return (run->begin > index ? run->begin : run->end()) - index;
}

}  // namespace billow::engine
