#include "arch/decoder/pass.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "nn/for_rows.h"

namespace billow::arch {

Pass::Pass(const nn::Compute& compute_, kv::Cache* cache_, const ModelInfo& model_,
           const Batch& batch_, std::span<const nn::Rope> ropes)
    : compute(compute_), cache(cache_), model(model_), batch(batch_) {
  if (cache == nullptr) {
    has_gaps = true;  // a pass with gaps needs more scratch memory
    closed_positions.resize(batch.positions.size());
  } else {
    blocks.resize(cache->layout().groups.size());
    for (size_t group = 0; group < blocks.size(); ++group) {
      for (const kv::BlockTable* table : batch.tables)
        blocks[group].push_back(table->blocks(group));
    }
    has_gaps = std::ranges::any_of(batch.tables, [](const kv::BlockTable* table) {
      return table->gap_begin() < table->gap_end();
    });
    if (has_gaps) {
      for (const kv::BlockTable* table : batch.tables)
        gaps.push_back({table->gap_begin(), table->gap_end()});
      for (size_t row = 0; row < batch.positions.size(); ++row) {
        const size_t n_gap = gaps[batch.sequences[row]].n();
        closed_positions.push_back(batch.positions[row] - static_cast<uint32_t>(n_gap));
      }
      for (size_t row = 0; row < batch.grid.size(); ++row) {
        const auto n_gap = static_cast<uint32_t>(gaps[batch.sequences[row]].n());
        const nn::GridPosition& at = batch.grid[row];
        closed_grid.push_back({at.time - n_gap, at.row - n_gap, at.column - n_gap});
      }
    }
  }
  if (cache != nullptr && cache->layout().states) find_runs();
  std::vector<uint8_t> in_long_text;
  if (!batch.is_long.empty())
    for (const uint32_t sequence : batch.sequences) in_long_text.push_back(batch.is_long[sequence]);
  for (const nn::Rope& rope : ropes) {
    rotations.push_back({rope.rotations(compute, batch.positions, in_long_text, batch.grid),
                         rope.rotations(compute, closed_positions, in_long_text, closed_grid)});
  }
}

nn::KvLayer Pass::layer(size_t index) const {
  const kv::LayerNeed& need = model.kv[index];
  nn::KvLayer layer = {.types = {},
                       .n_heads = need.n_heads,
                       .k_len = need.k_len,
                       .v_len = need.v_len,
                       .window = need.window};
  if (cache == nullptr) return layer;
  const kv::LayerPlace& place = cache->layout().layers[index];
  const kv::BlockPool& pool = cache->pool(place.group);
  layer.types = place.types;
  layer.base = pool.base();
  layer.block_bytes = pool.block_bytes();
  layer.k_offset = place.k_offset(0);
  layer.v_offset = place.v_offset(0);
  layer.head_bytes = place.head_bytes();
  return layer;
}

nn::KvRows Pass::rows(size_t index) const {
  if (cache == nullptr) return {batch.positions, batch.sequences, {}, {}};
  return {batch.positions, batch.sequences, blocks[cache->layout().layers[index].group], gaps};
}

nn::StatePart Pass::states(size_t index, size_t first_float) const {
  if (cache == nullptr) return {};
  return {runs, cache->layout().layers[index].state_offset + first_float * sizeof(float)};
}

// Plans where the pass writes states: to each existing block that has positions of the pass. The
// state after drafted rows goes to a separate block.
void Pass::find_runs() {
  constexpr size_t kBlock = kv::kBlockPositions;
  const size_t group = *cache->layout().states;
  const kv::BlockPool& pool = cache->pool(group);
  const auto bytes_of = [&](kv::BlockId id) { return pool.base() + id * pool.block_bytes(); };
  std::vector<size_t> n_stops;
  for (size_t row = 0; row < batch.positions.size();) {
    const size_t sequence = batch.sequences[row];
    const std::span<const kv::BlockId> ids = blocks[group][sequence];
    nn::StateRun run{.row_begin = row};
    while (row < batch.positions.size() && batch.sequences[row] == sequence) ++row;
    run.row_end = row;
    const size_t begin = batch.positions[run.row_begin];
    const size_t end = begin + (run.row_end - run.row_begin);
    if (begin != 0) {
      const kv::BlockId source = ids[(begin - 1) / kBlock];
      BILLOW_CHECK(source != kv::kNoBlock);
      run.from = bytes_of(source);
    }
    const size_t n_before = stops_.size();
    const kv::BlockTable::DraftState& draft = batch.tables[sequence]->draft();
    const size_t sure_end = draft.end != 0 ? draft.begin : end;
    for (size_t block = begin / kBlock; block <= (sure_end - 1) / kBlock; ++block) {
      if (ids[block] == kv::kNoBlock) continue;
      const size_t stop = std::min(sure_end, (block + 1) * kBlock);
      stops_.push_back({run.row_begin + (stop - begin), bytes_of(ids[block])});
    }
    if (draft.end != 0)
      stops_.push_back({run.row_begin + (draft.end - begin), bytes_of(draft.block)});
    BILLOW_CHECK(stops_.size() > n_before && stops_.back().row_end == run.row_end);
    n_stops.push_back(stops_.size() - n_before);
    runs.push_back(run);
  }
  size_t first = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].stops = std::span(stops_).subspan(first, n_stops[i]);
    first += n_stops[i];
  }
}

void scale_by_position(const Pass& pass, const Temperature& temperature, tensor::Matrix q) {
  if (temperature.growth == 0.0f) return;
  const std::span<const uint32_t> positions =
      pass.has_gaps ? pass.closed_positions : pass.batch.positions;
  nn::for_rows(pass.compute, q.n_rows, [&](size_t row) {
    const float position = static_cast<float>(positions[row]) + temperature.offset;
    const float n_lengths = std::floor(position / temperature.length);
    const float factor = 1.0f + temperature.growth * std::log(1.0f + n_lengths);
    std::for_each_n(q.row(row), q.n_cols, [factor](float& value) { value *= factor; });
  });
}

}  // namespace billow::arch
