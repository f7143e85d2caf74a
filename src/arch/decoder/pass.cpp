#include "arch/decoder/pass.h"

#include <algorithm>

namespace billow::arch {

Pass::Pass(const nn::Compute& compute_, kv::Cache* cache_, const ModelInfo& model_,
           const Batch& batch_, std::span<const nn::Rope> ropes)
    : compute(compute_), cache(cache_), model(model_), batch(batch_) {
  if (cache == nullptr) {
    has_gaps = true;  // a pass with gaps takes more scratch
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
    }
  }
  for (const nn::Rope& rope : ropes) {
    rotations.push_back(
        {rope.rotations(compute, batch.positions), rope.rotations(compute, closed_positions)});
  }
}

nn::KvLayer Pass::layer(size_t index) const {
  const kv::LayerNeed& need = model.kv[index];
  nn::KvLayer layer = {
      .n_heads = need.n_heads, .k_len = need.k_len, .v_len = need.v_len, .window = need.window};
  if (cache == nullptr) return layer;
  const kv::LayerPlace& place = cache->layout().layers[index];
  const kv::BlockPool& pool = cache->pool(place.group);
  layer.type = place.type;
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

}  // namespace billow::arch
