#include "reference/reference_encoder.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace billow::reference {
namespace {

void add(std::vector<float>& x, const std::vector<float>& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

}  // namespace

ReferenceEncoder::ReferenceEncoder(const gguf::File& file)
    : file_(file),
      prefix_(std::string(file.require_string("general.architecture")) + "."),
      n_embd_(file.require_uint(prefix_ + "embedding_length")),
      n_ff_(file.require_uint(prefix_ + "feed_forward_length")),
      n_head_(file.require_uint(prefix_ + "attention.head_count")),
      epsilon_(file.get_float(prefix_ + "attention.layer_norm_epsilon").value()),
      nomic_(prefix_ == "nomic-bert."),
      embedding_(file, "token_embd.weight", n_embd_,
                 file.find_tensor("token_embd.weight")->shape[1]),
      embedding_norm_(read_norm("token_embd_norm")) {
  if (!nomic_ && prefix_ != "bert.")
    throw Error(ErrorCode::kUnsupported, file.path() + ": " + prefix_ + " is no encoder");
  if (nomic_) {
    rope_ = {.n_rot = n_embd_ / n_head_,
             .base = file.get_float(prefix_ + "rope.freq_base").value_or(10000.0)};
  } else {
    positions_.emplace(file, "position_embd.weight", n_embd_,
                       file.require_uint(prefix_ + "context_length"));
  }
  if (const gguf::TensorInfo* types = file.find_tensor("token_types.weight"))
    types_.emplace(file, "token_types.weight", n_embd_, types->shape[1]);
  for (uint64_t i = 0; i < file.require_uint(prefix_ + "block_count"); ++i)
    layers_.push_back(read_layer("blk." + std::to_string(i) + "."));
}

ReferenceEncoder::Norm ReferenceEncoder::read_norm(const std::string& name) const {
  return {read_vector(file_, name + ".weight", n_embd_),
          read_vector(file_, name + ".bias", n_embd_)};
}

ReferenceEncoder::Linear ReferenceEncoder::read_linear(const std::string& name, uint64_t n_in,
                                                       uint64_t n_out) const {
  Linear linear{Matrix(file_, name + ".weight", n_in, n_out), {}};
  if (file_.find_tensor(name + ".bias") != nullptr)
    linear.bias = read_vector(file_, name + ".bias", n_out);
  return linear;
}

ReferenceEncoder::Layer ReferenceEncoder::read_layer(const std::string& prefix) const {
  std::vector<Linear> qkv;
  if (file_.find_tensor(prefix + "attn_qkv.weight") != nullptr) {
    qkv.push_back(read_linear(prefix + "attn_qkv", n_embd_, 3 * n_embd_));
  } else {
    for (const char* name : {"attn_q", "attn_k", "attn_v"})
      qkv.push_back(read_linear(prefix + name, n_embd_, n_embd_));
  }
  std::optional<Linear> gate;
  if (nomic_) gate = read_linear(prefix + "ffn_gate", n_embd_, n_ff_);
  return {std::move(qkv),
          read_linear(prefix + "attn_output", n_embd_, n_embd_),
          read_norm(prefix + "attn_output_norm"),
          std::move(gate),
          read_linear(prefix + "ffn_up", n_embd_, n_ff_),
          read_linear(prefix + "ffn_down", n_ff_, n_embd_),
          read_norm(prefix + "layer_output_norm")};
}

ReferenceEncoder::Rows ReferenceEncoder::apply(const Linear& linear, const Rows& in) const {
  Rows out = linear.weight.multiply(in);
  if (!linear.bias.empty())
    for (size_t i = 0; i < out.size(); ++i) out[i] += linear.bias[i % linear.bias.size()];
  return out;
}

void ReferenceEncoder::norm(const Norm& norm, Rows& x) const {
  const size_t n = n_embd_;
  for (size_t row = 0; row < x.size(); row += n) {
    double mean = 0;
    for (size_t i = 0; i < n; ++i) mean += static_cast<double>(x[row + i]);
    mean /= static_cast<double>(n);
    double variance = 0;
    for (size_t i = 0; i < n; ++i) variance += std::pow(static_cast<double>(x[row + i]) - mean, 2);
    const double root = std::sqrt(variance / static_cast<double>(n) + epsilon_);
    for (size_t i = 0; i < n; ++i) {
      x[row + i] = static_cast<float>((static_cast<double>(x[row + i]) - mean) / root *
                                          static_cast<double>(norm.weight[i]) +
                                      static_cast<double>(norm.bias[i]));
    }
  }
}

ReferenceEncoder::Rows ReferenceEncoder::attend(const Layer& layer, const Rows& x) const {
  const size_t n = x.size() / n_embd_;
  const size_t len = n_embd_ / n_head_;
  std::vector<Rows> parts;
  for (const Linear& linear : layer.qkv) parts.push_back(apply(linear, x));
  // Returns q, k or v (part 0, 1 or 2) of a token.
  const auto at = [&](size_t part, size_t token) {
    return parts.size() == 3 ? &parts[part][token * n_embd_]
                             : &parts[0][(token * 3 + part) * n_embd_];
  };
  for (size_t token = 0; nomic_ && token < n; ++token) {
    for (size_t head = 0; head < n_head_; ++head) {
      rotate(rope_, token, at(0, token) + head * len);
      rotate(rope_, token, at(1, token) + head * len);
    }
  }
  Rows out(x.size());
  std::vector<double> weights(n);
  for (size_t head = 0; head < n_head_; ++head) {
    for (size_t token = 0; token < n; ++token) {
      for (size_t t = 0; t < n; ++t) {
        weights[t] = dot(at(0, token) + head * len, at(1, t) + head * len, len) /
                     std::sqrt(static_cast<double>(len));
      }
      const double largest = *std::ranges::max_element(weights);
      double sum = 0;
      for (double& weight : weights) sum += weight = std::exp(weight - largest);
      for (size_t i = 0; i < len; ++i) {
        double value = 0;
        for (size_t t = 0; t < n; ++t)
          value += weights[t] / sum * static_cast<double>(at(2, t)[head * len + i]);
        out[token * n_embd_ + head * len + i] = static_cast<float>(value);
      }
    }
  }
  return apply(layer.output, out);
}

ReferenceEncoder::Rows ReferenceEncoder::feed_forward(const Layer& layer, const Rows& x) const {
  Rows up = apply(layer.up, x);
  const Rows gate = layer.gate ? apply(*layer.gate, x) : Rows{};
  for (size_t i = 0; i < up.size(); ++i) {
    const double u = static_cast<double>(up[i]);
    if (layer.gate) {
      const double g = static_cast<double>(gate[i]);
      up[i] = static_cast<float>(g / (1 + std::exp(-g)) * u);
    } else {
      up[i] = static_cast<float>(0.5 * u * std::erfc(-u / std::sqrt(2.0)));
    }
  }
  return apply(layer.down, up);
}

std::vector<float> ReferenceEncoder::hidden(std::span<const int32_t> tokens, size_t n_first) const {
  Rows x(tokens.size() * n_embd_);
  Rows row(n_embd_);
  for (size_t i = 0; i < tokens.size(); ++i) {
    float* to = x.data() + i * n_embd_;
    embedding_.read_row(static_cast<uint64_t>(tokens[i]), to);
    const auto add_row = [&](const Matrix& table, uint64_t index) {
      table.read_row(index, row.data());
      for (size_t j = 0; j < n_embd_; ++j) to[j] += row[j];
    };
    const bool second = n_first != 0 && i >= n_first && types_ && types_->n_out() > 1;
    if (types_) add_row(*types_, second ? 1 : 0);
    if (positions_) add_row(*positions_, i);
  }
  norm(embedding_norm_, x);
  for (const Layer& layer : layers_) {
    add(x, attend(layer, x));
    norm(layer.attention_norm, x);
    add(x, feed_forward(layer, x));
    norm(layer.output_norm, x);
  }
  return x;
}

std::vector<float> ReferenceEncoder::scores(std::span<const float> state) const {
  Rows x(state.begin(), state.end());
  if (file_.find_tensor("cls.weight") != nullptr) {
    x = apply(read_linear("cls", n_embd_, n_embd_), x);
    for (float& value : x) value = std::tanh(value);
  }
  return apply(read_linear("cls.output", n_embd_, file_.find_tensor("cls.output.weight")->shape[1]),
               x);
}

}  // namespace billow::reference
