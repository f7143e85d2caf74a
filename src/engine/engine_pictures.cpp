// The part of the engine that encodes the pictures of prompts.
#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"

namespace billow::engine {
namespace {

// Max patches of the pictures of a pass. A larger picture has its own pass.
constexpr size_t kMaxPatches = 4096;

size_t patches_of(const Picture& picture) {
  size_t n = 0;
  for (const vision::Tile& tile : picture.tiles) n += size_t{tile.rows} * tile.cols;
  return n;
}

}  // namespace

// Returns how many of the next n_rows rows come before the first picture without embeddings.
size_t Engine::rows_before_picture(const Sequence& sequence, size_t n_rows) const {
  if (sequence.pictures_.empty()) return n_rows;
  const SequenceContext& context = sequence.context_;
  const size_t next = context.index_of(context.n_held());
  return std::min(n_rows, sequence.pictures_.next_without_embeddings(next) - next);
}

// Encodes pictures for the next rows of sequences. While other rows are pending, takes at most the
// time of a pass. Returns whether pictures got embeddings.
bool Engine::read_pictures(std::span<const size_t> n_pending) {
  if (picture_reader_ == nullptr) return false;
  if (!picture_reader_->busy() && begin_picture_pass()) return true;
  if (!picture_reader_->busy()) return false;
  const std::chrono::nanoseconds max_time = pacing_.max_pass_time();
  const bool others_wait = std::ranges::any_of(n_pending, [](size_t n) { return n > 0; });
  const bool is_limited = others_wait && max_time.count() > 0;
  std::vector<Sequence*> waiting;
  for (const std::shared_ptr<Sequence>& sequence : running_)
    if (rows_before_picture(*sequence, 1) == 0) waiting.push_back(sequence.get());
  const Clock::time_point start = Clock::now();
  const bool is_complete =
      picture_reader_->run(team_, is_limited ? start + max_time : Clock::time_point::max());
  const std::chrono::nanoseconds time = Clock::now() - start;
  for (Sequence* const sequence : waiting) sequence->picture_time_ += time;
  return is_complete;
}

// Begins a pass over the pictures that sequences lack, as far as memory allows. Returns whether
// pictures have embeddings without a pass, because recent pictures were the same.
bool Engine::begin_picture_pass() {
  const auto n_threads = static_cast<size_t>(team_.size());
  std::vector<std::shared_ptr<Picture>> pictures;
  size_t n_patches = 0;
  bool any_found = false;
  std::vector<std::pair<Sequence*, std::shared_ptr<Picture>>> firsts;  // of each sequence
  const auto add = [&](Sequence& sequence, const std::shared_ptr<Picture>& picture) {
    if (picture_reader_->find(*picture)) {
      any_found = true;
      return;
    }
    if (firsts.empty() || firsts.back().first != &sequence) firsts.emplace_back(&sequence, picture);
    const auto is_same = [&](const auto& one) { return one->digest == picture->digest; };
    const size_t n = patches_of(*picture);
    if (std::ranges::any_of(pictures, is_same)) return;
    if (!pictures.empty() && n_patches + n > kMaxPatches) return;
    pictures.push_back(picture);
    n_patches += n;
  };
  for (const std::shared_ptr<Sequence>& sequence : running_) {
    sequence->refused_picture_bytes_ = 0;
    const SequenceContext& context = sequence->context_;
    if (sequence->pictures_.empty() || sequence->held_ || sequence->waiting_) continue;
    const size_t next = context.index_of(context.n_held());
    for (const std::shared_ptr<Picture>& picture : sequence->pictures_.without_embeddings(next))
      add(*sequence, picture);
  }
  if (pictures.empty()) return any_found;
  const auto begin = [&](std::span<const std::shared_ptr<Picture>> of_pass) {
    const uint64_t n_bytes = picture_reader_->pass_bytes(of_pass, n_threads);
    if (!kv_.grant(context::MemoryClass::kScratch, n_bytes)) return false;
    picture_reader_->begin({of_pass.begin(), of_pass.end()}, n_threads);
    return true;
  };
  if (pictures.size() > 1 && begin(pictures)) return any_found;
  // One picture at a time. A picture that is too large does not hold up those of other sequences.
  for (const auto& [sequence, picture] : firsts) {
    if (begin({&picture, 1})) return any_found;
    sequence->refused_picture_bytes_ = picture_reader_->pass_bytes({&picture, 1}, n_threads);
    if (rows_before_picture(*sequence, 1) == 0) sequence->waiting_ = true;
  }
  return any_found;
}

// Encodes the pictures that have no embeddings, one after another. Throws Error (kOutOfMemory).
void Engine::encode_now(std::span<const std::shared_ptr<Picture>> pictures) {
  constexpr Clock::time_point kNoLimit = Clock::time_point::max();
  for (const std::shared_ptr<Picture>& picture : pictures) {
    if (picture->embeddings != nullptr) continue;
    if (picture_reader_->busy()) (void)picture_reader_->run(team_, kNoLimit);
    if (picture_reader_->find(*picture)) continue;
    const auto n_threads = static_cast<size_t>(team_.size());
    const uint64_t n_bytes = picture_reader_->pass_bytes({&picture, 1}, n_threads);
    if (!kv_.grant(context::MemoryClass::kScratch, n_bytes))
      throw Error(ErrorCode::kOutOfMemory, "no memory to encode a picture; " + budget_left());
    picture_reader_->begin({picture}, n_threads);
    (void)picture_reader_->run(team_, kNoLimit);
  }
}

}  // namespace billow::engine
