#include "reference/tiny_encoder.h"

#include <cmath>

#include "gguf/writer.h"
#include "reference/tensor_maker.h"
#include "reference/tiny_vocabulary.h"

namespace billow::reference {
namespace {

bool is_nomic(const TinyEncoderOptions& options) { return options.architecture == "nomic-bert"; }

void set_hyperparameters(gguf::Writer& writer, const TinyEncoderOptions& o) {
  const std::string prefix = o.architecture + ".";
  const auto set = [&](const char* name, uint32_t value) { writer.set_uint(prefix + name, value); };
  writer.set_string("general.architecture", o.architecture);
  writer.set_string("general.name", "Tiny " + o.architecture);
  set("context_length", o.n_context);
  set("embedding_length", o.n_embd);
  set("block_count", o.n_layers);
  set("feed_forward_length", o.n_ff);
  set("attention.head_count", o.n_head);
  if (o.pooling) set("pooling_type", *o.pooling);
  writer.set_float(prefix + "attention.layer_norm_epsilon", 1e-12f);
  writer.set_bool(prefix + "attention.causal", false);
  if (is_nomic(o)) writer.set_float(prefix + "rope.freq_base", 1000);
  if (o.n_types != 0) writer.set_uint("tokenizer.ggml.token_type_count", o.n_types);
}

void add_norm(TensorMaker& tensors, const std::string& name, uint32_t n) {
  tensors.vector(name + ".weight", n, 1, 0.2f);
  tensors.vector(name + ".bias", n, 0, 0.2f);
}

void add_layer(TensorMaker& tensors, const TinyEncoderOptions& o, uint32_t layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const auto linear = [&](const char* name, uint64_t n_in, uint64_t n_out, float gain) {
    tensors.matrix(prefix + name + ".weight", o.type, n_in, n_out,
                   gain / std::sqrt(static_cast<float>(n_in)));
    if (!is_nomic(o)) tensors.vector(prefix + name + ".bias", n_out, 0, 0.3f);
  };
  if (o.fused || is_nomic(o)) {
    linear("attn_qkv", o.n_embd, uint64_t{3} * o.n_embd, 1.5f);
  } else {
    linear("attn_q", o.n_embd, o.n_embd, 1.5f);
    linear("attn_k", o.n_embd, o.n_embd, 1.5f);
    linear("attn_v", o.n_embd, o.n_embd, 1.0f);
  }
  linear("attn_output", o.n_embd, o.n_embd, 1.5f);
  add_norm(tensors, prefix + "attn_output_norm", o.n_embd);
  if (is_nomic(o)) linear("ffn_gate", o.n_embd, o.n_ff, 1.5f);
  linear("ffn_up", o.n_embd, o.n_ff, 1.5f);
  linear("ffn_down", o.n_ff, o.n_embd, 1.5f);
  add_norm(tensors, prefix + "layer_output_norm", o.n_embd);
}

void add_classifier(TensorMaker& tensors, const TinyEncoderOptions& o) {
  const float gain = 1.0f / std::sqrt(static_cast<float>(o.n_embd));
  if (o.dense) {
    tensors.matrix("cls.weight", o.type, o.n_embd, o.n_embd, gain);
    tensors.vector("cls.bias", o.n_embd, 0, 0.3f);
  }
  tensors.matrix("cls.output.weight", o.type, o.n_embd, o.n_labels, gain);
  tensors.vector("cls.output.bias", o.n_labels, 0, 0.3f);
}

void fill(gguf::Writer& writer, TensorMaker& tensors, const TinyEncoderOptions& o) {
  set_hyperparameters(writer, o);
  const uint32_t n_vocab = set_word_piece_vocabulary(writer);
  tensors.matrix("token_embd.weight", o.type, o.n_embd, n_vocab, 1);
  if (!is_nomic(o))
    tensors.matrix("position_embd.weight", quant::Type::kF32, o.n_embd, o.n_context, 0.5f);
  if (o.n_types != 0)
    tensors.matrix("token_types.weight", quant::Type::kF32, o.n_embd, o.n_types, 0.5f);
  add_norm(tensors, "token_embd_norm", o.n_embd);
  for (uint32_t i = 0; i < o.n_layers; ++i) add_layer(tensors, o, i);
  if (o.n_labels != 0) add_classifier(tensors, o);
}

}  // namespace

std::vector<std::byte> make_tiny_encoder(const TinyEncoderOptions& options) {
  gguf::Writer writer;
  TensorMaker tensors(writer, options.seed);
  fill(writer, tensors, options);
  return writer.to_bytes();
}

void write_tiny_encoder(const TinyEncoderOptions& options, const std::string& path) {
  gguf::Writer writer;
  TensorMaker tensors(writer, options.seed);
  fill(writer, tensors, options);
  writer.write(path);
}

std::vector<TinyEncoderVariant> tiny_encoder_variants() {
  return {
      {"bert", {}},
      {"bert-without-types", {.n_types = 0, .seed = 2}},
      {"bert-one-type", {.n_types = 1, .pooling = 2, .seed = 3}},
      {"bert-fused", {.fused = true, .seed = 4}},
      {"bert-odd-heads", {.n_embd = 96, .n_ff = 160, .seed = 5}},
      {"bert-small-heads", {.n_layers = 1, .n_embd = 40, .n_ff = 72, .n_head = 5, .seed = 6}},
      {"bert-reranker", {.n_labels = 1, .pooling = 4, .seed = 7}},
      {"bert-labels", {.n_labels = 3, .dense = false, .pooling = 4, .seed = 8}},
      {"nomic-bert", {.architecture = "nomic-bert", .seed = 9}},
      {"nomic-bert-wide-heads",
       {.architecture = "nomic-bert", .n_layers = 2, .n_head = 1, .seed = 10}},
  };
}

}  // namespace billow::reference
