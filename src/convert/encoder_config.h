// What config.json says about an encoder: which family it is of and how large its parts are. Plain
// data; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/sources.h"

namespace billow::convert {

enum class Layout : uint8_t { kBert, kNomic };

// What the last layer's rows become, as numbered by PREFIX.pooling_type.
enum class Pooling : uint32_t { kMean = 1, kCls = 2, kLast = 3, kRank = 4 };

enum class Head : uint8_t {
  kNone,
  kPooled,     // a "pooler" and a "classifier": BertForSequenceClassification
  kClassifier  // a "classifier" of two matrices: RobertaForSequenceClassification
};

// One class of Hugging Face's library that can be converted.
struct Family {
  std::string_view name;          // as config.json has it in "architectures"
  std::string_view architecture;  // general.architecture
  Layout layout;
  Head head;
  bool pads_positions;  // the position table begins with rows for padding, up to pad_token_id
};

struct EncoderConfig {
  const Family* family = nullptr;
  uint32_t n_embd = 0;
  uint32_t n_layers = 0;
  uint32_t n_heads = 0;
  uint32_t n_feed_forward = 0;
  uint32_t n_positions = 0;         // rows of the position table; 0 where there is none
  uint32_t n_padded_positions = 0;  // the first of them, which no text uses
  uint32_t n_context = 0;           // tokens that the model was trained for
  uint32_t n_token_types = 0;
  double norm_epsilon = 0;
  std::optional<double> rope_base;
  std::vector<std::string> labels;  // of the classes, in order; empty where config.json has none
};

// Throws Error for a model that cannot be converted, in words that name the field of config.json;
// kUnsupported where it is only not known here.
EncoderConfig read_encoder_config(const Sources& sources);

// How a text's vectors become one, by modules.json and the file that it names; mean, as Hugging
// Face's library takes it, where neither says anything, and then `is_guess`. Throws Error
// (kUnsupported) for a way that GGUF has no number for, and for modules behind the pooling that
// change the vector.
struct PoolingChoice {
  Pooling pooling = Pooling::kMean;
  bool is_guess = false;
};
PoolingChoice read_pooling(const Sources& sources, const Family& family);

}  // namespace billow::convert
