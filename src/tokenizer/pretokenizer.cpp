#include "tokenizer/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/utf8.h"

namespace billow::tokenizer {
namespace {

// The patterns of the table need far less. If a pattern has a mistake, these limits cause an Error
// instead of a hang.
constexpr uint32_t kMatchLimit = 1u << 30;
constexpr uint32_t kHeapLimitKib = 256u << 10;

struct FreeCode {
  void operator()(pcre2_code* code) const noexcept { pcre2_code_free(code); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const noexcept {
    pcre2_match_context_free(context);
  }
};
struct FreeData {
  void operator()(pcre2_match_data* data) const noexcept { pcre2_match_data_free(data); }
};

// A text in which U+FFFD replaces all bytes that are not UTF-8. Maps places back to the original
// text.
struct ValidText {
  std::string text;
  std::vector<size_t> origin;  // the place of text[i] in the original, and one more for the end

  explicit ValidText(std::string_view original) {
    text.reserve(original.size());
    for (size_t at = 0; at < original.size();) {
      const utf8::CodePoint point = utf8::decode(original.substr(at));
      utf8::append(text, point.value);
      origin.resize(text.size(), at);
      at += point.n_bytes;
    }
    origin.push_back(original.size());
  }
};

size_t next_character(std::string_view text, size_t at) {
  do {
    ++at;
  } while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

// Calls visit(place) for the place before each group of three characters of text[first, last),
// counted from the right.
template <typename Visit>
void for_each_three(std::string_view text, size_t first, size_t last, const Visit& visit) {
  size_t n_left = 0;
  for (size_t at = first; at < last; at = next_character(text, at)) ++n_left;
  for (size_t at = first; at < last; at = next_character(text, at), --n_left) {
    if (n_left % 3 == 0) visit(at);
  }
}

}  // namespace

// A compiled stage.
class PreTokenizer::Pattern {
 public:
  explicit Pattern(const Stage& stage) : split_(stage.split) {
    const std::string pattern = expand_pattern(stage.pattern);
    int error = 0;
    PCRE2_SIZE place = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &place, nullptr));
    BILLOW_CHECK(code_ != nullptr);
    context_.reset(pcre2_match_context_create(nullptr));
    if (context_ == nullptr) throw_out_of_memory();
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_set_heap_limit(context_.get(), kHeapLimitKib);
    // If the system forbids executable memory, the interpreter does the same work.
    jit_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;
  }

  // Appends the ends of the pieces of text[begin, end), which is matched as a separate subject.
  // REQUIRES: valid UTF-8.
  void split(std::string_view text, size_t begin, size_t end, pcre2_match_data* data,
             std::vector<size_t>& ends) const {
    const std::string_view subject = text.substr(begin, end - begin);
    size_t at = 0;
    size_t piece = 0;  // begin of the gap before the next match
    while (at < subject.size() && match(subject, at, data)) {
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data);
      if (bounds[1] <= bounds[0]) {  // an empty match belongs to the gap
        at = next_character(subject, bounds[0]);
        continue;
      }
      at = bounds[1];
      piece = append_match(text, begin + piece, begin + bounds[0], begin + at, ends) - begin;
    }
    if (piece < subject.size()) ends.push_back(end);
  }

 private:
  // Appends the ends of the pieces that the match text[first, last) makes. The current piece begins
  // at `piece`. Returns where the next piece begins.
  size_t append_match(std::string_view text, size_t piece, size_t first, size_t last,
                      std::vector<size_t>& ends) const {
    const auto cut = [&](size_t place) {
      if (place > piece) ends.push_back(place);
      piece = std::max(piece, place);
    };
    if (split_ != Split::kCutBeforeThrees) cut(first);
    if (split_ != Split::kWhole) for_each_three(text, first, last, cut);
    if (split_ != Split::kCutBeforeThrees) cut(last);
    return piece;
  }

  [[noreturn]] static void throw_out_of_memory() {
    throw Error(ErrorCode::kOutOfMemory, "no memory to split text into words");
  }

  bool match(std::string_view subject, size_t at, pcre2_match_data* data) const {
    const auto* bytes = reinterpret_cast<PCRE2_SPTR>(subject.data());
    int result = PCRE2_ERROR_JIT_STACKLIMIT;
    if (jit_) {
      result = pcre2_jit_match(code_.get(), bytes, subject.size(), at, PCRE2_NO_UTF_CHECK, data,
                               context_.get());
    }
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
      result = pcre2_match(code_.get(), bytes, subject.size(), at,
                           PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, context_.get());
    }
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0) {
      throw Error(ErrorCode::kTooLarge, "text of " + std::to_string(subject.size()) +
                                            " bytes cannot be split into words (PCRE2 error " +
                                            std::to_string(result) + "); send it in parts");
    }
    return true;
  }

  std::unique_ptr<pcre2_code, FreeCode> code_;
  std::unique_ptr<pcre2_match_context, FreeContext> context_;
  Split split_;
  bool jit_ = false;
};

PreTokenizer::PreTokenizer(const PreTokenizerFamily& family) {
  for (const Stage& stage : family.stages) {
    if (!stage.pattern.empty()) patterns_.emplace_back(stage);
  }
}

PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

std::vector<size_t> PreTokenizer::split(std::string_view text) const {
  if (!utf8::is_valid(text)) {
    const ValidText valid(text);
    std::vector<size_t> ends = split(valid.text);
    for (size_t& end : ends) end = valid.origin[end];
    return ends;
  }
  const std::unique_ptr<pcre2_match_data, FreeData> data(pcre2_match_data_create(1, nullptr));
  if (data == nullptr) throw Error(ErrorCode::kOutOfMemory, "no memory to split text into words");
  std::vector<size_t> ends;
  if (!text.empty()) ends.push_back(text.size());
  std::vector<size_t> next;
  for (const Pattern& pattern : patterns_) {
    next.clear();
    next.reserve(ends.size());
    size_t begin = 0;
    for (const size_t end : ends) {
      pattern.split(text, begin, end, data.get(), next);
      begin = end;
    }
    ends.swap(next);
  }
  return ends;
}

}  // namespace billow::tokenizer
