// Attention of query rows over the blocks of one KV head, by the online softmax (Milakov and
// Gimelshein, arXiv 1805.02867): a running maximum and sum for each row, the output rescaled when
// the maximum grows. Blocks are taken in order, so a row's result does not depend on the rows
// beside it.
constexpr size_t kStrips = kBlockPositions / Isa::kLanes;
constexpr size_t kRowsAtOnce = 8;
constexpr float kLowest = -3.0e38f;

// What is known of a row so far; its output is the unnormalised sum of values.
struct AttentionRow {
  const float* query;
  float* output;
  float maximum;
  float sum;
  size_t begin;  // positions of the present block that it sees: [begin, end)
  size_t end;
};

// scores[r] = scale * (K^T query), K as [k_len][64].
template <size_t R>
inline void score_block(const AttentionArgs& args, AttentionRow* const* rows, const uint16_t* k,
                        float (*scores)[kBlockPositions]) noexcept {
  for (size_t strip = 0; strip < kStrips; ++strip) {
    F acc[R];
    for (size_t r = 0; r < R; ++r) acc[r] = Isa::zero();
    const uint16_t* column = k + strip * Isa::kLanes;
    for (size_t d = 0; d < args.k_len; ++d) {
      const F key = Isa::load_f16(column + d * kBlockPositions);
      for (size_t r = 0; r < R; ++r) acc[r] = Isa::fma(key, Isa::set1(rows[r]->query[d]), acc[r]);
    }
    for (size_t r = 0; r < R; ++r) {
      F score = acc[r] * Isa::set1(args.scale);
      if (args.softcap > 0.0f) score = softcapped(score, args.softcap);
      Isa::store(scores[r] + strip * Isa::kLanes, score);
    }
  }
}

// Turns scores into weights e^(score - maximum), 0 outside what the row sees, and brings the row up
// to date.
inline void weigh_block(AttentionRow& row, float* scores, size_t v_len) noexcept {
  for (size_t i = 0; i < row.begin; ++i) scores[i] = kLowest;
  for (size_t i = row.end; i < kBlockPositions; ++i) scores[i] = kLowest;
  F largest = Isa::load(scores);
  for (size_t strip = 1; strip < kStrips; ++strip)
    largest = Isa::max(largest, Isa::load(scores + strip * Isa::kLanes));
  const float block_maximum = Isa::largest(largest);
  if (block_maximum > row.maximum) {
    const float shrink =
        Isa::sum(exponential(Isa::set1(row.maximum - block_maximum))) / Isa::kLanes;
    for (size_t i = 0; i < v_len; i += Isa::kLanes) {
      Isa::store(row.output + i, Isa::load(row.output + i) * Isa::set1(shrink));
    }
    row.sum *= shrink;
    row.maximum = block_maximum;
  }
  F sum = Isa::zero();
  for (size_t strip = 0; strip < kStrips; ++strip) {
    const F weight = exponential(Isa::load(scores + strip * Isa::kLanes) - Isa::set1(row.maximum));
    sum = sum + weight;
    Isa::store(scores + strip * Isa::kLanes, weight);
  }
  row.sum += Isa::sum(sum);
}

// output += weights * V, V as [64][v_len]. Only positions that one of the rows sees are read:
// others may hold anything.
template <size_t R>
inline void add_values(const AttentionArgs& args, AttentionRow* const* rows, const uint16_t* v,
                       const float (*weights)[kBlockPositions]) noexcept {
  size_t begin = kBlockPositions;
  size_t end = 0;
  for (size_t r = 0; r < R; ++r) {
    begin = rows[r]->begin < begin ? rows[r]->begin : begin;
    end = rows[r]->end > end ? rows[r]->end : end;
  }
  for (size_t i = 0; i < args.v_len; i += Isa::kLanes) {
    F acc[R];
    for (size_t r = 0; r < R; ++r) acc[r] = Isa::load(rows[r]->output + i);
    for (size_t p = begin; p < end; ++p) {
      const F value = Isa::load_f16(v + p * args.v_len + i);
      for (size_t r = 0; r < R; ++r) acc[r] = Isa::fma(value, Isa::set1(weights[r][p]), acc[r]);
    }
    for (size_t r = 0; r < R; ++r) Isa::store(rows[r]->output + i, acc[r]);
  }
}

template <size_t R>
void attend_rows(const AttentionArgs& args, AttentionRow* const* rows, const uint16_t* k,
                 const uint16_t* v) noexcept {
  float scores[R][kBlockPositions];
  score_block<R>(args, rows, k, scores);
  for (size_t r = 0; r < R; ++r) weigh_block(*rows[r], scores[r], args.v_len);
  add_values<R>(args, rows, v, scores);
}

void attention(const AttentionArgs& args) noexcept {
  using Attend = void (*)(const AttentionArgs&, AttentionRow* const*, const uint16_t*,
                          const uint16_t*) noexcept;
  constexpr Attend kAttend[kRowsAtOnce + 1] = {nullptr,        attend_rows<1>, attend_rows<2>,
                                               attend_rows<3>, attend_rows<4>, attend_rows<5>,
                                               attend_rows<6>, attend_rows<7>, attend_rows<8>};
  AttentionRow state[kMaxAttentionRows];
  size_t block = args.first[0] / kBlockPositions;
  size_t last_block = 0;
  for (size_t r = 0; r < args.n_rows; ++r) {
    state[r] = {args.queries[r], args.outputs[r], kLowest, 0.0f, 0, 0};
    for (size_t i = 0; i < args.v_len; ++i) args.outputs[r][i] = 0.0f;
    block = args.first[r] / kBlockPositions < block ? args.first[r] / kBlockPositions : block;
    last_block =
        args.last[r] / kBlockPositions > last_block ? args.last[r] / kBlockPositions : last_block;
  }
  for (; block <= last_block; ++block) {
    const size_t start = block * kBlockPositions;
    const std::byte* tile = args.base + args.block_ids[block] * args.block_bytes;
    const auto* k = reinterpret_cast<const uint16_t*>(tile + args.k_offset);
    const auto* v = reinterpret_cast<const uint16_t*>(tile + args.v_offset);
    AttentionRow* active[kRowsAtOnce];
    size_t n_active = 0;
    for (size_t r = 0; r < args.n_rows; ++r) {
      if (args.last[r] >= start && args.first[r] < start + kBlockPositions) {
        state[r].begin = args.first[r] > start ? args.first[r] - start : 0;
        const size_t end = args.last[r] + 1 - start;
        state[r].end = end < kBlockPositions ? end : kBlockPositions;
        active[n_active++] = &state[r];
      }
      if (n_active == kRowsAtOnce || (r + 1 == args.n_rows && n_active > 0)) {
        kAttend[n_active](args, active, k, v);
        n_active = 0;
      }
    }
  }
  for (size_t r = 0; r < args.n_rows; ++r) {
    const F factor = Isa::set1(1.0f / state[r].sum);
    for (size_t i = 0; i < args.v_len; i += Isa::kLanes) {
      Isa::store(args.outputs[r] + i, Isa::load(args.outputs[r] + i) * factor);
    }
  }
}
