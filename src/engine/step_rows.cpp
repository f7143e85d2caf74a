#include "engine/step_rows.h"

namespace billow::engine {
namespace {

nn::GridPosition same(uint32_t position) noexcept { return {position, position, position}; }

}  // namespace

// Fills the lists for pictures with the values of text for all earlier rows.
void StepRows::begin_pictures() {
  has_pictures_ = true;
  embeddings_.resize(tokens_.size());
  if (model_.sees_whole_pictures) last_seen_ = positions_;
  if (!model_.has_grid) return;
  for (const uint32_t position : positions_) grid_.push_back(same(position));
}

void StepRows::add(const SequenceContext& context, size_t n, const Text& text) {
  const PlacedPictures* const pictures =
      text.pictures != nullptr && !text.pictures->empty() ? text.pictures : nullptr;
  if (pictures != nullptr && !has_pictures_) begin_pictures();
  const size_t n_floats = model_.n_embd * (1 + model_.n_deep);
  for (size_t at = context.n_held() - n; at < context.n_held(); ++at) {
    const size_t index = context.index_of(at);
    const auto position = static_cast<uint32_t>(context.slot_of(at));
    const int32_t token =
        index < text.tokens.size() ? text.tokens[index] : text.draft[index - text.tokens.size()];
    tokens_.push_back(is_picture_token(token) ? 0 : token);
    positions_.push_back(position);
    sequences_.push_back(static_cast<uint32_t>(tables_.size()));
    kinds_.push_back(index < text.n_read ? kernels::RowKind::kRead : kernels::RowKind::kWritten);
    if (!has_pictures_) continue;
    embeddings_.push_back(pictures == nullptr ? nullptr : pictures->embedding(index, n_floats));
    if (model_.has_grid) {
      // Dropped tokens before `index` are text. Each of them takes one position.
      nn::GridPosition place = pictures == nullptr ? same(position) : pictures->grid(index);
      if (pictures != nullptr && index > at) place = same(place.time - uint32_t(index - at));
      grid_.push_back(place);
    }
    if (model_.sees_whole_pictures) {
      const size_t last = pictures == nullptr ? index : pictures->last_of_tile(index);
      last_seen_.push_back(position + static_cast<uint32_t>(last - index));
    }
  }
  tables_.push_back(&context.blocks());
  is_long_.push_back(context.is_long() ? 1 : 0);
  adapters_.push_back(text.adapter);
}

}  // namespace billow::engine
