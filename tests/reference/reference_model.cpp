#include "reference/reference_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/error.h"

namespace billow::reference {
namespace {

uint64_t vocabulary_size(const gguf::File& file) {
  const gguf::TensorInfo* info = file.find_tensor("token_embd.weight");
  return info == nullptr ? 0 : info->shape[1];
}

// Returns x / sqrt(mean(x^2) + epsilon) * weight, for each run of weight.size() elements.
std::vector<float> rms_norm(std::vector<float> x, const std::vector<float>& weight,
                            double epsilon) {
  const size_t n = weight.size();
  for (size_t start = 0; start < x.size(); start += n) {
    double squares = 0;
    for (size_t i = 0; i < n; ++i) {
      squares += static_cast<double>(x[start + i]) * static_cast<double>(x[start + i]);
    }
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
    for (size_t i = 0; i < n; ++i) {
      x[start + i] = static_cast<float>(static_cast<double>(x[start + i]) * scale *
                                        static_cast<double>(weight[i]));
    }
  }
  return x;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

// GELU in its tanh form, which the models with GEGLU were trained with.
double gelu(double x) {
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}

double softcap(double x, double cap) { return cap == 0 ? x : cap * std::tanh(x / cap); }

void add(std::vector<float>& x, const std::vector<float>& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// Rotates every head of every token.
void rotate_all(const Rope& rope, uint64_t n_heads, uint64_t length, std::vector<float>& x) {
  for (size_t head = 0; head < x.size() / length; ++head) {
    rotate(rope, head / n_heads, x.data() + head * length);
  }
}

}  // namespace

ReferenceModel::ReferenceModel(const gguf::File& file, uint64_t n_context)
    : file_(file),
      hp_(read_hyperparameters(file)),
      n_context_(n_context),
      embedding_(file, "token_embd.weight", hp_.n_embd, vocabulary_size(file)),
      output_(file, file.find_tensor("output.weight") ? "output.weight" : "token_embd.weight",
              hp_.n_embd, vocabulary_size(file)),
      output_norm_(read_vector(file, "output_norm.weight", hp_.n_embd)) {
  for (uint64_t i = 0; i < hp_.n_layers; ++i) layers_.push_back(read_layer(i));
}

ReferenceModel::Linear ReferenceModel::read_linear(const std::string& name, uint64_t n_in,
                                                   uint64_t n_out) const {
  Linear linear{Matrix(file_, name + ".weight", n_in, n_out), {}};
  if (file_.find_tensor(name + ".bias")) linear.bias = read_vector(file_, name + ".bias", n_out);
  return linear;
}

ReferenceModel::Layer ReferenceModel::read_layer(uint64_t layer) const {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const auto norm = [&](const char* name, uint64_t n) {
    return read_vector(file_, prefix + name + ".weight", n);
  };
  const auto optional_norm = [&](const char* name, uint64_t n) {
    return file_.find_tensor(prefix + name + ".weight") ? norm(name, n) : std::vector<float>();
  };
  const auto linear = [&](const char* name, uint64_t n_in, uint64_t n_out) {
    return read_linear(prefix + name, n_in, n_out);
  };
  return Layer{
      .attention_norm = norm("attn_norm", hp_.n_embd),
      .feed_forward_norm = norm("ffn_norm", hp_.n_embd),
      .query_norm = optional_norm("attn_q_norm", hp_.key_length),
      .key_norm = optional_norm("attn_k_norm", hp_.key_length),
      .post_attention_norm = optional_norm("post_attention_norm", hp_.n_embd),
      .post_feed_forward_norm = optional_norm("post_ffw_norm", hp_.n_embd),
      .query = linear("attn_q", hp_.n_embd, hp_.n_head * hp_.key_length),
      .key = linear("attn_k", hp_.n_embd, hp_.n_head_kv * hp_.key_length),
      .value = linear("attn_v", hp_.n_embd, hp_.n_head_kv * hp_.value_length),
      .output = linear("attn_output", hp_.n_head * hp_.value_length, hp_.n_embd),
      .gate = linear("ffn_gate", hp_.n_embd, hp_.n_ff),
      .up = linear("ffn_up", hp_.n_embd, hp_.n_ff),
      .down = linear("ffn_down", hp_.n_ff, hp_.n_embd),
  };
}

ReferenceModel::Rows ReferenceModel::embed(std::span<const int32_t> tokens) const {
  Rows x(tokens.size() * hp_.n_embd);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<uint64_t>(tokens[i]) >= n_vocab()) {
      throw Error(ErrorCode::kInvalidInput,
                  "token " + std::to_string(tokens[i]) + " is not in the vocabulary");
    }
    embedding_.read_row(static_cast<uint64_t>(tokens[i]), x.data() + i * hp_.n_embd);
  }
  for (float& value : x) {
    value = static_cast<float>(static_cast<double>(value) * hp_.embedding_scale);
  }
  return x;
}

ReferenceModel::Rows ReferenceModel::apply(const Linear& linear, const Rows& in) const {
  Rows out = linear.weight.multiply(in);
  if (!linear.bias.empty()) {
    for (size_t i = 0; i < out.size(); ++i) out[i] += linear.bias[i % linear.bias.size()];
  }
  return out;
}

// Computes causal attention. `window` is the number of latest tokens that a token sees, including
// itself. Returns [n_tokens][n_head * value_length].
ReferenceModel::Rows ReferenceModel::attend(const Rows& query, const Rows& key, const Rows& value,
                                            uint64_t window) const {
  const size_t n_tokens = query.size() / (hp_.n_head * hp_.key_length);
  const size_t k_len = hp_.key_length;
  const size_t v_len = hp_.value_length;
  Rows out(n_tokens * hp_.n_head * v_len);
  const auto one_head = [&](size_t token, size_t head, std::vector<double>& p) {
    const size_t kv_head = head / (hp_.n_head / hp_.n_head_kv);
    const size_t first = token + 1 > window ? token + 1 - window : 0;
    const float* q = &query[(token * hp_.n_head + head) * k_len];
    for (size_t t = first; t <= token; ++t) {
      const float* k = &key[(t * hp_.n_head_kv + kv_head) * k_len];
      p[t] = softcap(dot(q, k, k_len) * hp_.attention_scale, hp_.attention_softcap);
    }
    const double largest = *std::max_element(&p[first], &p[token] + 1);
    double sum = 0;
    for (size_t t = first; t <= token; ++t) sum += p[t] = std::exp(p[t] - largest);
    std::vector<double> mean(v_len);
    for (size_t t = first; t <= token; ++t) {
      const float* v = &value[(t * hp_.n_head_kv + kv_head) * v_len];
      for (size_t i = 0; i < v_len; ++i) mean[i] += p[t] / sum * static_cast<double>(v[i]);
    }
    for (size_t i = 0; i < v_len; ++i) {
      out[(token * hp_.n_head + head) * v_len + i] = static_cast<float>(mean[i]);
    }
  };
  const uint64_t cost = n_tokens * n_tokens / 2 * hp_.n_head * (k_len + v_len);
  in_parallel(hp_.n_head, cost, [&](size_t begin, size_t end) {
    std::vector<double> p(n_tokens);
    for (size_t head = begin; head < end; ++head) {
      for (size_t token = 0; token < n_tokens; ++token) one_head(token, head, p);
    }
  });
  return out;
}

void ReferenceModel::add_attention(const Layer& layer, bool local, const Rope& rope,
                                   Rows& x) const {
  const Rows input = rms_norm(x, layer.attention_norm, hp_.norm_epsilon);
  Rows query = apply(layer.query, input);
  Rows key = apply(layer.key, input);
  const Rows value = apply(layer.value, input);
  if (!layer.query_norm.empty()) query = rms_norm(query, layer.query_norm, hp_.norm_epsilon);
  if (!layer.key_norm.empty()) key = rms_norm(key, layer.key_norm, hp_.norm_epsilon);
  rotate_all(rope, hp_.n_head, hp_.key_length, query);
  rotate_all(rope, hp_.n_head_kv, hp_.key_length, key);
  const uint64_t window = local ? hp_.window : UINT64_MAX;
  Rows out = apply(layer.output, attend(query, key, value, window));
  if (!layer.post_attention_norm.empty()) {
    out = rms_norm(out, layer.post_attention_norm, hp_.norm_epsilon);
  }
  add(x, out);
}

void ReferenceModel::add_feed_forward(const Layer& layer, Rows& x) const {
  const Rows input = rms_norm(x, layer.feed_forward_norm, hp_.norm_epsilon);
  Rows gate = apply(layer.gate, input);
  const Rows up = apply(layer.up, input);
  for (size_t i = 0; i < gate.size(); ++i) {
    const double g = static_cast<double>(gate[i]);
    gate[i] = static_cast<float>((hp_.gelu ? gelu(g) : silu(g)) * static_cast<double>(up[i]));
  }
  Rows out = apply(layer.down, gate);
  if (!layer.post_feed_forward_norm.empty()) {
    out = rms_norm(out, layer.post_feed_forward_norm, hp_.norm_epsilon);
  }
  add(x, out);
}

std::vector<float> ReferenceModel::hidden(std::span<const int32_t> tokens, size_t first) const {
  Rope rope = hp_.rope;
  if (!hp_.divisors_short.empty() && !hp_.divisors_long.empty()) {
    const uint64_t n_context = n_context_ == 0 ? tokens.size() : n_context_;
    const bool beyond = static_cast<double>(n_context) > rope.n_context_original;
    rope.divisors = beyond ? hp_.divisors_long : hp_.divisors_short;
  }
  Rows x = embed(tokens);
  for (uint64_t i = 0; i < hp_.n_layers; ++i) {
    add_attention(layers_[i], hp_.local[i], hp_.local[i] ? hp_.rope_local : rope, x);
    add_feed_forward(layers_[i], x);
  }
  const size_t skipped = std::min(first, tokens.size()) * hp_.n_embd;
  x.erase(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(skipped));
  return rms_norm(std::move(x), output_norm_, hp_.norm_epsilon);
}

std::vector<float> ReferenceModel::logits(std::span<const int32_t> tokens, size_t first) const {
  std::vector<float> out = output_.multiply(hidden(tokens, first));
  if (hp_.final_softcap != 0) {
    for (float& value : out) {
      value = static_cast<float>(softcap(static_cast<double>(value), hp_.final_softcap));
    }
  }
  return out;
}

}  // namespace billow::reference
