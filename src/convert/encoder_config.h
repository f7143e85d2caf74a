// What config.json says about an encoder: which family it is of and how large its parts are. Plain
// data; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/sources.h"

namespace billow::convert {

enum class Layout : uint8_t {
  kBert,
  kDistil,
  kNomic,
  kNomicExperts,
  kJina2,
  kJina3,
  kModern,
  kEuro,
  kNeo
};

// What the last layer's rows become, as numbered by PREFIX.pooling_type.
enum class Pooling : uint32_t { kMean = 1, kCls = 2, kLast = 3, kRank = 4 };

enum class Head : uint8_t {
  kNone,
  kPooled,      // a "pooler" and a "classifier": BertForSequenceClassification
  kClassifier,  // a "classifier" of two matrices: RobertaForSequenceClassification
  kNormed       // a "head" with a norm, and a "classifier": ModernBertForSequenceClassification
};

// One class of Hugging Face's library that can be converted.
struct Family {
  std::string_view name{};          // as config.json has it in "architectures"
  std::string_view architecture{};  // general.architecture
  Layout layout = Layout::kBert;
  Head head = Head::kNone;
  bool pads_positions =
      false;  // the position table begins with rows for padding, up to pad_token_id
  std::string_view prefix = "";    // that names of tensors may have, and that GGUF has not
  bool has_dense_modules = false;  // may have dense layers behind pooling
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
  bool norms_by_root = false;  // by the root of the mean square: an epsilon of another key
  std::optional<double> rope_base;
  std::optional<double> local_rope_base;  // of layers with a window
  bool scales_no_rope = false;            // rope.scaling.type "none"
  uint32_t n_kv_heads = 0;                // 0: as many as heads, and no key for it
  uint32_t head_len = 0;                  // 0: the width by the number of heads, and no key for it
  uint32_t window = 0;                    // positions that a token sees in most layers; 0: all
  uint32_t window_period = 0;             // each so many layers one sees all
  uint32_t n_experts = 0;                 // of the layers that have some
  uint32_t n_used_experts = 0;            // for each token
  uint32_t experts_period = 0;            // the second of each so many layers has experts
  std::string activation;                 // of the feed-forward part, where a file may say which
  std::optional<Pooling> classifier_pooling;
  uint32_t n_words = 0;             // vocab_size of config.json, where GGUF has a key for it
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
// Folders of the dense layers behind pooling, by modules.json, in their order.
std::vector<std::string> dense_folders(const Sources& sources);

// --- the parts of read_encoder_config, one a layout ---

[[noreturn]] void refuse_config(const std::string& what);  // kUnsupported
// Refuses what is given otherwise than the architecture has it.
void require_text(const DocumentFields& fields, const char* name,
                  std::initializer_list<std::string_view> allowed);
void require_flag(const DocumentFields& fields, const char* name, bool wanted);
void read_nomic_experts(const DocumentFields& fields, EncoderConfig& config);
void read_distil(const DocumentFields& fields, EncoderConfig& config);
void read_jina2(const DocumentFields& fields, EncoderConfig& config);
void read_jina3(const DocumentFields& fields, EncoderConfig& config);
void read_modern(const DocumentFields& fields, EncoderConfig& config);
void read_euro(const DocumentFields& fields, EncoderConfig& config);
void read_neo(const DocumentFields& fields, EncoderConfig& config);

}  // namespace billow::convert
